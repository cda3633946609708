"""Rules of the method: components, layers by name, rank and alpha."""

import re
from collections.abc import Iterator

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


def problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield problems of components, layers by name, rank, alpha and file naming."""
    method = config.method
    if isinstance(method, Vae):
        return
    if isinstance(method, EmbeddingOnly):
        yield from _early_freeze(config, {})
        return
    yield from _component_problems(config, method)
    for index, rule in enumerate(method.layers):
        yield from pattern_problems(f"method.layers.{index}.pattern", rule.pattern)
    if method.targets == "named" and not any(rule.train for rule in method.layers):
        yield Problem(
            "method.layers",
            "no layers are listed, and only listed layers are trained",
            "Expected at least one pattern",
            'Add one, or choose other layers ("method.targets").',
        )
    if isinstance(method, LoKr) and method.full_matrix:
        if method.rank_dropout:
            yield warning(
                "method.rank_dropout",
                "full matrices have no ranks to drop",
                "Rank dropout only works with low-rank matrices",
                "Set it to 0, or use module dropout.",
                to=0.0,
            )
    elif isinstance(method, LowRank):
        yield from _alpha_problems(config, method).values()
    naming = config.output.lora_naming
    if isinstance(method, AdapterSection) and naming not in method.namings:
        what = "DoRA over a layer's inputs" if method.kind == "dora" else method.title
        supported = " or ".join(f'"{each}"' for each in method.namings)
        yield Problem(
            "output.lora_naming",
            f"{_NAMINGS[naming]} naming does not support {what}",
            f"Expected {supported}, or LoRA as the method",
            "Choose another naming.",
            fix=Fix("output.lora_naming", "kohya"),
        )


def pattern_problems(path: str, pattern: str) -> Iterator[Problem]:
    """Yield a problem if a pattern of layers is no regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        yield Problem(
            path,
            f'"{pattern}" is not a regular expression ({error})',
            "Expected a part of the layers' names",
            "Put a backslash before special characters: . * + ? ( ) [ ]",
        )


def trained_components(
    config: TrainConfig, method: Adapter | Full
) -> dict[str, Unet | TextEncoder | TextEncoder2]:
    """Return the components that are trained, by the names of their settings."""
    components: dict[str, Unet | TextEncoder | TextEncoder2]
    components = {"unet": method.unet, **encoder_settings(method, config.model.family)}
    return {name: component for name, component in components.items() if component.train}


def _component_problems(config: TrainConfig, method: Adapter | Full) -> Iterator[Problem]:
    encoders = encoder_settings(method, config.model.family)
    if method.text_encoder_2.train and len(encoders) == 1:
        yield warning(
            f"method.{ENCODER_SECTIONS[1]}.train",
            f"{FAMILY_LABELS[config.model.family]} has one text encoder",
            "Only SDXL has a second one",
            "Turn it off.",
            to=False,
        )
    trained = trained_components(config, method)
    ends = {name: component.stop_after for name, component in trained.items()}
    if not ends:
        yield Problem(
            "method.unet.train",
            "nothing of the model is trained",
            "Expected the UNet or a text encoder",
            'Turn one of them on, or choose the method "embedding" to train only embeddings.',
            fix=Fix("method.unet.train", True),
        )
    yield from _early_freeze(config, ends)


def _early_freeze(config: TrainConfig, ends: dict[str, int]) -> Iterator[Problem]:
    """Yield an error if everything is frozen before the run ends."""
    steps, section = config.training.steps, config.embeddings
    all_ends = {f"method.{name}.stop_after": end for name, end in ends.items()}
    token_ends = [token.stop_after or section.stop_after for token in section.tokens if token.train]
    if token_ends:
        all_ends["embeddings.stop_after"] = 0 if 0 in token_ends else max(token_ends)
    last = max(all_ends, key=lambda path: all_ends[path] or steps, default="")
    if last and 0 < all_ends[last] < steps:
        yield Problem(
            last,
            f"everything is frozen after {all_ends[last]} of {steps} steps",
            "Expected at least one component that is trained to the end",
            "Set it to 0, or lower training.steps.",
            fix=Fix(last, 0),
        )


def _alpha_problems(config: TrainConfig, method: Adapter) -> dict[str, Problem]:
    """Return warnings about high scales of adapters: of components and of layers by name."""
    assert isinstance(method, LowRank)
    found: dict[str, Problem] = {}
    sizes: dict[str, tuple[int, float]] = {}

    def check(path: str, rank: int, alpha: float, fixed: str = "") -> None:
        if path not in found and alpha > HIGH_SCALE * rank:
            found[path] = warning(
                path,
                f"alpha {alpha:g} with rank {rank} scales the adapter by {alpha / rank:g}",
                "Alpha is usually between 1 and the rank",
                "Lower alpha, or lower the learning rate with it.",
                fix=Fix(fixed, float(rank)) if fixed else None,
            )

    for name, component in trained_components(config, method).items():
        assert isinstance(component, UnetAdapter | TextEncoderAdapter | TextEncoder2Adapter)
        sizes[name] = component.rank or method.rank, component.alpha or method.alpha
        own = "alpha" if component.alpha else "rank" if component.rank else ""
        path = f"method.{name}.{own}" if own else "method.alpha"
        check(path, *sizes[name], f"method.{name}.alpha" if own else path)
    for number, rule in enumerate(method.layers):
        if not rule.train or not (rule.rank or rule.alpha):
            continue
        named = [size for name, size in sizes.items() if name in rule.pattern]
        # Patterns that name no component may match layers of each.
        for rank, alpha in named or sizes.values():
            path = f"method.layers.{number}.{'alpha' if rule.alpha else 'rank'}"
            check(path, rule.rank or rank, rule.alpha or alpha)
    return found
