"""Rules of concept sliders."""

from collections.abc import Iterator

from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.full import Vae
from onetrainer.config.objectives.slider import Slider
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem, warning
from onetrainer.families.registry import FAMILY_LABELS, base_of, family_spec


def problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield problems of concept sliders; none with other objectives."""
    section = config.objective
    if not isinstance(section, Slider) or isinstance(config.method, Vae):
        return
    yield from _method_problems(config)
    yield from _model_problems(config, section)
    yield from _direction_problems(section)
    if config.validation.use:
        yield Problem(
            "validation.use",
            "a slider trains without images, so there are none for validation",
            "Expected it off; the slider is checked by itself (objective.check_every)",
            "Turn it off.",
            fix=Fix("validation.use", value=False),
        )


def _method_problems(config: TrainConfig) -> Iterator[Problem]:
    if not isinstance(config.method, Adapter):
        yield Problem(
            "method.kind",
            "a slider is an adapter whose strength is varied, and this method trains none",
            "Expected LoRA or another kind of adapter",
            "Choose LoRA, or another objective.",
            choices=(Fix("method.kind", "lora"), Fix("objective.kind", "denoising")),
        )
    if config.embeddings.tokens:
        yield Problem(
            "embeddings.tokens",
            "new tokens have no strength, so a slider cannot train them",
            "Expected an adapter alone",
            "Remove the tokens.",
        )


def _model_problems(config: TrainConfig, section: Slider) -> Iterator[Problem]:
    spec = family_spec(config.model.family)
    base = base_of(spec.name)
    if spec.sees_masked_image:
        yield Problem(
            "model.family",
            "this model paints into images, and sliders denoise whole images",
            "Expected a model that generates whole images",
            "Train the model it was made from; the slider also works with this one.",
            fix=Fix("model.family", base),
        )
    if min(section.width, section.height) < spec.smallest_side:
        yield warning(
            "objective.width",
            f"{section.width} × {section.height} px is small for {FAMILY_LABELS[base]}",
            f"It was trained at {spec.side} px and works poorly below that",
            f"Set width and height to {spec.side}, if the memory allows.",
        )


def _direction_problems(section: Slider) -> Iterator[Problem]:
    if not section.directions:
        yield Problem(
            "objective.directions",
            "no direction is set, so there is nothing to train toward",
            "Expected at least one, from a positive to a negative prompt",
            "Add one.",
        )
    seen: dict[str, int] = {}
    for number, direction in enumerate(section.directions):
        path = f"objective.directions.{number}"
        if direction.positive.strip() == direction.negative.strip():
            yield Problem(
                f"{path}.positive",
                "the positive and the negative prompt are the same, so there is no direction",
                "Expected two different prompts",
                "Change one of them.",
            )
        first = seen.setdefault(direction.label, number)
        if first != number:
            yield warning(
                path,
                f"this direction is the same as objective.directions.{first}",
                "Each direction is trained once in turn",
                "Remove one of them.",
            )
