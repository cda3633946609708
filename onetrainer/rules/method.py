"""What is wrong between what is trained and the other settings."""

import re

from onetrainer.config.base.components import (
    TextEncoder,
    TextEncoder2,
    TextEncoder2Adapter,
    TextEncoderAdapter,
    Unet,
    UnetAdapter,
)
from onetrainer.config.methods.adapters import Adapter, LoKr, Lora, LowRank
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.run.model import FAMILY_WORDS, base_of
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem

LARGE_UPSCALE = 2


def problems(config: TrainConfig) -> list[Problem]:
    """Problems of the method: networks, layers by name, and what fits to it."""
    match config.method:
        case Vae():
            return []
        case EmbeddingOnly():
            return _early_ends(config, {})
        case _:
            parts = (_networks, _patterns, _alphas, _rank_dropout, _naming)
            return [problem for part in parts for problem in part(config)]


def _networks(config: TrainConfig) -> list[Problem]:
    method = config.method
    assert not isinstance(method, EmbeddingOnly | Vae)
    found = []
    if method.text_encoder_2.train and base_of(config.model.family) != "sdxl":
        found.append(
            Problem(
                "method.text_encoder_2.train",
                f"{FAMILY_WORDS[config.model.family]} has one text encoder",
                "Only SDXL has a second one",
                "Turn it off.",
                "warning",
                Fix("method.text_encoder_2.train", False),
            )
        )
    ends = {name: own.stop_after for name, own in _networks_of(config, method).items()}
    if not ends:
        found.append(
            Problem(
                "method.unet.train",
                "nothing of the model is trained",
                "Expected the UNet or a text encoder",
                'Turn one of them on, or choose the method "embedding" to learn words alone.',
                fix=Fix("method.unet.train", True),
            )
        )
    return found + _early_ends(config, ends)


def _networks_of(
    config: TrainConfig, method: Adapter | Full
) -> dict[str, Unet | TextEncoder | TextEncoder2]:
    """The networks that are trained, by the names of their settings."""
    networks: dict[str, Unet | TextEncoder | TextEncoder2]
    networks = {"unet": method.unet, "text_encoder": method.text_encoder}
    if base_of(config.model.family) == "sdxl":
        networks["text_encoder_2"] = method.text_encoder_2
    return {name: network for name, network in networks.items() if network.train}


def _early_ends(config: TrainConfig, ends: dict[str, int]) -> list[Problem]:
    """An error if everything that is trained stops before the run does."""
    steps = config.training.steps
    words = config.embeddings
    all_ends = {f"method.{name}.stop_after": end for name, end in ends.items()}
    of_words = [word.stop_after or words.stop_after for word in words.tokens if word.train]
    if of_words:
        all_ends["embeddings.stop_after"] = 0 if 0 in of_words else max(of_words)
    last = max(all_ends, key=lambda path: all_ends[path] or steps, default="")
    if not last or not all_ends[last] or all_ends[last] >= steps:
        return []
    return [
        Problem(
            last,
            f"everything that is trained stops after {all_ends[last]} of {steps} steps",
            "Expected one network at least that trains to the end",
            "Set it to 0, or lower training.steps.",
            fix=Fix(last, 0),
        )
    ]


def _patterns(config: TrainConfig) -> list[Problem]:
    method = config.method
    assert not isinstance(method, EmbeddingOnly | Vae)
    found = []
    for place, rule in enumerate(method.layers):
        try:
            re.compile(rule.pattern)
        except re.error as error:
            found.append(
                Problem(
                    f"method.layers.{place}.pattern",
                    f'"{rule.pattern}" is no regular expression ({error})',
                    "Expected a part of the layers' names",
                    "Put a backslash before characters that mean something else: . * + ? ( ) [ ]",
                )
            )
    if method.targets == "named" and not any(rule.train for rule in method.layers):
        found.append(
            Problem(
                "method.layers",
                "no layer is named, and only named ones are to be trained",
                "Expected a pattern at least",
                'Add one, or choose other layers ("method.targets").',
            )
        )
    return found


def _alphas(config: TrainConfig) -> list[Problem]:
    """Warnings of adapters that are scaled up: of whole networks, and of layers by name."""
    method = config.method
    if not isinstance(method, LowRank) or (isinstance(method, LoKr) and method.full_matrix):
        return []
    found: dict[str, Problem] = {}
    sizes: dict[str, tuple[int, float]] = {}
    for name, network in _networks_of(config, method).items():
        assert isinstance(network, UnetAdapter | TextEncoderAdapter | TextEncoder2Adapter)
        rank, alpha = network.rank or method.rank, network.alpha or method.alpha
        sizes[name] = (rank, alpha)
        own, place = f"method.{name}", "method.alpha"
        if network.alpha or network.rank:
            place = f"{own}.alpha" if network.alpha else f"{own}.rank"
        if _is_large(rank, alpha):
            fix = Fix("method.alpha" if place == "method.alpha" else f"{own}.alpha", float(rank))
            found.setdefault(place, _scaled_up(place, rank, alpha, fix))
    for number, rule in enumerate(method.layers):
        if not rule.train or not (rule.rank or rule.alpha):
            continue
        named = [size for name, size in sizes.items() if name in rule.pattern]
        # Patterns that name no network may match layers of each.
        own_sizes = [(rule.rank or r, rule.alpha or a) for r, a in named or sizes.values()]
        large = [size for size in own_sizes if _is_large(*size)]
        if large:
            place = f"method.layers.{number}.{'alpha' if rule.alpha else 'rank'}"
            found[place] = _scaled_up(place, *large[0])
    return [*found.values()]


def _is_large(rank: int, alpha: float) -> bool:
    return alpha > LARGE_UPSCALE * rank


def _scaled_up(path: str, rank: int, alpha: float, fix: Fix | None = None) -> Problem:
    return Problem(
        path,
        f"alpha {alpha:g} with rank {rank} scales the adapter by {alpha / rank:g}",
        "Alpha is usually between 1 and the rank",
        "Lower alpha, or lower the learning rate with it.",
        "warning",
        fix,
    )


def _rank_dropout(config: TrainConfig) -> list[Problem]:
    """A warning where there are no ranks that could be dropped."""
    method = config.method
    if not isinstance(method, LoKr) or not method.full_matrix or not method.rank_dropout:
        return []
    return [
        Problem(
            "method.rank_dropout",
            "whole matrices have no ranks that could be left out",
            "Rank dropout works on matrices of low rank alone",
            "Set it to 0, or use module dropout.",
            "warning",
            Fix("method.rank_dropout", 0.0),
        )
    ]


def _naming(config: TrainConfig) -> list[Problem]:
    """An error for adapters that the chosen naming has no words for."""
    method, naming = config.method, config.output.lora_naming
    if naming != "diffusers" or isinstance(method, Lora) or not isinstance(method, Adapter):
        return []
    what = "DoRA over a layer's inputs" if method.kind == "dora" else method.title
    return [
        Problem(
            "output.lora_naming",
            f"diffusers' naming has no words for {what}",
            'Expected "kohya" or "comfyui", or LoRA as the method',
            "Choose another naming.",
            fix=Fix("output.lora_naming", "kohya"),
        )
    ]
