"""Rules of the method: components, layers by name, rank and alpha."""

import re
from collections.abc import Iterator

from onetrainer.config.base.amount import Steps, known
from onetrainer.config.base.components import TextEncoderAdapter, UnetAdapter
from onetrainer.config.base.encoders import encoder_key, encoders_by_key
from onetrainer.config.base.numbers import number_text
from onetrainer.config.methods.adapter_section import AdapterSection
from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.components import settings_path, trained_components
from onetrainer.config.methods.embedding import EmbeddingOnly
from onetrainer.config.methods.full import Full, Vae
from onetrainer.config.methods.low_rank import Dora, LoKr, LowRank
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem, warning
from onetrainer.families.registry import family_spec, folder_of
from onetrainer.schedules.amounts import lengths

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
        if not (method.rank or method.start_from):
            yield Problem(
                "method.rank",
                "a rank of 0 is that of the file to continue from, and there is none",
                "Expected a rank of 1 or more, or a file",
                "Set a rank, such as 16, or choose a file (method.start_from).",
                fix=Fix("method.rank", 16),
            )
        yield from _alpha_problems(config, method).values()
    naming = config.output.lora_naming
    if isinstance(method, Dora) and naming == "diffusers" and method.norms == "inputs":
        yield Problem(
            "output.lora_naming",
            "diffusers naming does not support DoRA with norms of inputs",
            'Expected method.norms "outputs" with it, or another naming',
            "Choose norms of outputs for diffusers, another naming for other programs.",
            choices=(Fix("method.norms", "outputs"), Fix("output.lora_naming", "kohya")),
        )
    if isinstance(method, AdapterSection) and naming not in method.namings:
        what = method.title
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


def _component_problems(config: TrainConfig, method: Adapter | Full) -> Iterator[Problem]:
    family = family_spec(config.model.family)
    known = [f"{encoder_key(each.name)} ({each.label})" for each in family.encoders]
    for key, encoder in method.text_encoders.items():
        if encoder.train and family.name not in encoders_by_key()[key]:
            yield warning(
                f"method.text_encoders.{key}.train",
                f"{family.label} has no such text encoder",
                f"Expected {' or '.join(known)}",
                "Turn it off.",
                to=False,
            )
    trained = trained_components(method, family.name)
    ends = {settings_path(name): component.stop_after for name, component in trained.items()}
    if not ends:
        yield Problem(
            "method.unet.train",
            "nothing of the model is trained",
            "Expected the UNet or a text encoder",
            'Turn one of them on, or choose the method "embedding" to train only embeddings.',
            fix=Fix("method.unet.train", True),
        )
    if not lengths(config):
        yield from _early_freeze(config, ends)


def _early_freeze(config: TrainConfig, ends: dict[str, Steps]) -> Iterator[Problem]:
    """Yield an error if everything is frozen before the run ends."""
    steps, section = config.training.total_steps, config.embeddings
    all_ends = {f"{path}.stop_after": known(end) for path, end in ends.items()}
    tokens = [token for token in section.tokens if token.train]
    token_ends = [known(token.stop_after or section.stop_after) for token in tokens]
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
        if path not in found and rank and alpha > HIGH_SCALE * rank:
            found[path] = warning(
                path,
                f"alpha {number_text(alpha)} with rank {rank} scales the adapter by"
                f" {number_text(alpha / rank)}",
                "Alpha is usually between 1 and the rank",
                "Lower alpha, or lower the learning rate with it.",
                fix=Fix(fixed, float(rank)) if fixed else None,
            )

    for name, component in trained_components(method, config.model.family).items():
        assert isinstance(component, UnetAdapter | TextEncoderAdapter)
        size = component.rank or method.rank, component.alpha or method.alpha
        sizes[folder_of(name)] = size
        own = "alpha" if component.alpha else "rank" if component.rank else ""
        path = f"{settings_path(name)}.{own}" if own else "method.alpha"
        check(path, *size, f"{settings_path(name)}.alpha" if own else path)
    for number, rule in enumerate(method.layers):
        if not rule.train or not (rule.rank or rule.alpha):
            continue
        named = [size for folder, size in sizes.items() if folder in rule.pattern]
        # Patterns that name no component may match layers of each.
        for rank, alpha in named or sizes.values():
            path = f"method.layers.{number}.{'alpha' if rule.alpha else 'rank'}"
            check(path, rule.rank or rank, rule.alpha or alpha)
    return found
