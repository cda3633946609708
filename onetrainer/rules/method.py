"""Rules of the method: components, layers by name, rank and alpha."""

import re

from onetrainer.config.base.components import (
    TextEncoder,
    TextEncoder2,
    TextEncoder2Adapter,
    TextEncoderAdapter,
    Unet,
    UnetAdapter,
)
from onetrainer.config.methods.adapter_section import AdapterSection
from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.encoders import ENCODER_SECTIONS, encoder_settings
from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.methods.low_rank import LoKr, LowRank
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem, warning
from onetrainer.families.registry import FAMILY_LABELS

HIGH_SCALE = 2
_NAMINGS = {"kohya": "kohya's", "diffusers": "diffusers'", "comfyui": "ComfyUI's"}


def problems(config: TrainConfig) -> list[Problem]:
    """Return problems of components, layers by name, rank, alpha and file naming."""
    match config.method:
        case Vae():
            return []
        case EmbeddingOnly():
            return _early_freeze(config, {})
        case Full() | AdapterSection():
            rules = (_components, _patterns, _alphas, _rank_dropout, _naming)
            return [problem for rule in rules for problem in rule(config)]


def _components(config: TrainConfig) -> list[Problem]:
    method = config.method
    assert not isinstance(method, EmbeddingOnly | Vae)
    found = []
    encoders = encoder_settings(method, config.model.family)
    if method.text_encoder_2.train and len(encoders) == 1:
        found.append(
            Problem(
                f"method.{ENCODER_SECTIONS[1]}.train",
                f"{FAMILY_LABELS[config.model.family]} has one text encoder",
                "Only SDXL has a second one",
                "Turn it off.",
                "warning",
                Fix(f"method.{ENCODER_SECTIONS[1]}.train", False),
            )
        )
    trained = _trained_components(config, method)
    ends = {name: component.stop_after for name, component in trained.items()}
    if not ends:
        found.append(
            Problem(
                "method.unet.train",
                "nothing of the model is trained",
                "Expected the UNet or a text encoder",
                'Turn one of them on, or choose the method "embedding" to train only embeddings.',
                fix=Fix("method.unet.train", True),
            )
        )
    return found + _early_freeze(config, ends)


def _trained_components(
    config: TrainConfig, method: Adapter | Full
) -> dict[str, Unet | TextEncoder | TextEncoder2]:
    """Return the components that are trained, by the names of their settings."""
    components: dict[str, Unet | TextEncoder | TextEncoder2]
    components = {"unet": method.unet, **encoder_settings(method, config.model.family)}
    return {name: component for name, component in components.items() if component.train}


def _early_freeze(config: TrainConfig, ends: dict[str, int]) -> list[Problem]:
    """Return an error if everything is frozen before the run ends."""
    steps, section = config.training.steps, config.embeddings
    all_ends = {f"method.{name}.stop_after": end for name, end in ends.items()}
    token_ends = [token.stop_after or section.stop_after for token in section.tokens if token.train]
    if token_ends:
        all_ends["embeddings.stop_after"] = 0 if 0 in token_ends else max(token_ends)
    last = max(all_ends, key=lambda path: all_ends[path] or steps, default="")
    if not last or not all_ends[last] or all_ends[last] >= steps:
        return []
    return [
        Problem(
            last,
            f"everything is frozen after {all_ends[last]} of {steps} steps",
            "Expected at least one component that is trained to the end",
            "Set it to 0, or lower training.steps.",
            fix=Fix(last, 0),
        )
    ]


def _patterns(config: TrainConfig) -> list[Problem]:
    method = config.method
    assert not isinstance(method, EmbeddingOnly | Vae)
    found = []
    for index, rule in enumerate(method.layers):
        try:
            re.compile(rule.pattern)
        except re.error as error:
            found.append(
                Problem(
                    f"method.layers.{index}.pattern",
                    f'"{rule.pattern}" is not a regular expression ({error})',
                    "Expected a part of the layers' names",
                    "Put a backslash before special characters: . * + ? ( ) [ ]",
                )
            )
    if method.targets == "named" and not any(rule.train for rule in method.layers):
        found.append(
            Problem(
                "method.layers",
                "no layers are listed, and only listed layers are trained",
                "Expected at least one pattern",
                'Add one, or choose other layers ("method.targets").',
            )
        )
    return found


def _alphas(config: TrainConfig) -> list[Problem]:
    """Return warnings about high scales of adapters: of components and of layers by name."""
    method = config.method
    if not isinstance(method, LowRank) or (isinstance(method, LoKr) and method.full_matrix):
        return []
    found: dict[str, Problem] = {}
    sizes: dict[str, tuple[int, float]] = {}
    for name, component in _trained_components(config, method).items():
        assert isinstance(component, UnetAdapter | TextEncoderAdapter | TextEncoder2Adapter)
        rank, alpha = component.rank or method.rank, component.alpha or method.alpha
        sizes[name] = (rank, alpha)
        section, path = f"method.{name}", "method.alpha"
        if component.alpha or component.rank:
            path = f"{section}.alpha" if component.alpha else f"{section}.rank"
        if _is_high(rank, alpha):
            fix = Fix(path if path == "method.alpha" else f"{section}.alpha", float(rank))
            found.setdefault(path, _high_scale(path, rank, alpha, fix))
    for number, rule in enumerate(method.layers):
        if not rule.train or not (rule.rank or rule.alpha):
            continue
        named = [size for name, size in sizes.items() if name in rule.pattern]
        # Patterns that name no component may match layers of each.
        rule_sizes = [(rule.rank or r, rule.alpha or a) for r, a in named or sizes.values()]
        high = [size for size in rule_sizes if _is_high(*size)]
        if high:
            path = f"method.layers.{number}.{'alpha' if rule.alpha else 'rank'}"
            found[path] = _high_scale(path, *high[0])
    return [*found.values()]


def _is_high(rank: int, alpha: float) -> bool:
    return alpha > HIGH_SCALE * rank


def _high_scale(path: str, rank: int, alpha: float, fix: Fix | None = None) -> Problem:
    return warning(
        path,
        f"alpha {alpha:g} with rank {rank} scales the adapter by {alpha / rank:g}",
        "Alpha is usually between 1 and the rank",
        "Lower alpha, or lower the learning rate with it.",
        fix=fix,
    )


def _rank_dropout(config: TrainConfig) -> list[Problem]:
    """Return a warning if there are no ranks that could be dropped."""
    method = config.method
    if not isinstance(method, LoKr) or not method.full_matrix or not method.rank_dropout:
        return []
    return [
        warning(
            "method.rank_dropout",
            "full matrices have no ranks to drop",
            "Rank dropout only works with low-rank matrices",
            "Set it to 0, or use module dropout.",
            to=0.0,
        )
    ]


def _naming(config: TrainConfig) -> list[Problem]:
    """Return an error for adapters that the selected naming does not support."""
    method, naming = config.method, config.output.lora_naming
    if not isinstance(method, AdapterSection) or naming in method.namings:
        return []
    what = "DoRA over a layer's inputs" if method.kind == "dora" else method.title
    supported = " or ".join(f'"{each}"' for each in method.namings)
    return [
        Problem(
            "output.lora_naming",
            f"{_NAMINGS[naming]} naming does not support {what}",
            f"Expected {supported}, or LoRA as the method",
            "Choose another naming.",
            fix=Fix("output.lora_naming", "kohya"),
        )
    ]
