"""Rules of the learning rate schedule, the EMA and the times of validation."""

from collections.abc import Iterator
from itertools import pairwise

from onetrainer.config.base.arguments import parse_arguments
from onetrainer.config.base.numbers import number_text
from onetrainer.config.optimizers.custom import CustomOptimizer
from onetrainer.config.run.schedule import (
    CosineRestarts,
    CosineWaves,
    CustomSchedule,
    Points,
    Schedule,
)
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem, UserError, warning
from onetrainer.rules.lengths import in_likely_steps
from onetrainer.schedules.learning_rate import lr_multiplier, warmup_steps

MAX_INITIAL_FRACTION = 0.1  # fraction of the final EMA that is the model before training
MIN_STEPS_PER_CYCLE = 2  # with a single step per cycle the rate is always at its full value
DEFAULT_INTERVAL = 100  # steps or epochs between validations; the interval that fixes suggest


def problems(config: TrainConfig) -> Iterator[Problem]:
    """Yield problems of the learning rate schedule, the EMA and the times of validation."""
    config = in_likely_steps(config)
    steps = config.training.total_steps
    if isinstance(config.schedule, Points):
        yield from _point_problems(config.schedule, steps)
    elif isinstance(config.schedule, CustomSchedule):
        yield from custom_problems(config.schedule, "schedule", "a function or class")
    else:
        yield from _curve_problems(config.schedule, steps)
    if config.ema.use:
        yield from _ema_problems(config, steps)
    if config.validation.use:
        yield from _validation_problems(config, steps)


def custom_problems(
    section: CustomSchedule | CustomOptimizer,
    path: str,
    noun: str,
    *,
    given: tuple[str, ...] = (),
) -> Iterator[Problem]:
    """Yield problems of the name and the arguments of the user's own code, without running it."""
    if not section.function.strip():
        yield Problem(
            f"{path}.function",
            "no code is named",
            f'Expected {noun}, as "file.py:name" or "package.module.name"',
            "Enter it.",
        )
    try:
        parse_arguments(section.arguments, given=given)
    except UserError as error:
        yield Problem(f"{path}.arguments", error.what, error.expected, error.remedy)


def _curve_problems(schedule: Schedule, steps: int) -> Iterator[Problem]:
    assert not isinstance(schedule, Points | CustomSchedule), "it has no warm-up"
    warmup = warmup_steps(schedule, steps=steps)
    name = "warmup_steps" if schedule.warmup_steps else "warmup_fraction"
    if schedule.warmup_steps and schedule.warmup_fraction:
        yield Problem(
            "schedule.warmup_fraction",
            f"the warm-up is set twice: {schedule.warmup_steps} steps, and a fraction of"
            f" {number_text(schedule.warmup_fraction)}",
            "Expected one of the two",
            "Set schedule.warmup_fraction or schedule.warmup_steps to 0.",
            fix=Fix("schedule.warmup_fraction", 0),
        )
    elif warmup >= steps:
        yield Problem(
            f"schedule.{name}",
            f"the warm-up ({warmup} steps) is not shorter than the run ({steps} steps)",
            f"Expected fewer than training.steps = {steps}",
            f"Lower schedule.{name}, or raise training.steps.",
            fix=Fix(f"schedule.{name}", steps // 10 if schedule.warmup_steps else 0.1),
        )
    elif (
        isinstance(schedule, CosineRestarts | CosineWaves)
        and schedule.cycles * MIN_STEPS_PER_CYCLE > steps - warmup
    ):
        yield Problem(
            "schedule.cycles",
            f"{number_text(schedule.cycles)} cycles are too many for the {steps - warmup} steps"
            " after the warm-up",
            f"Expected at least {MIN_STEPS_PER_CYCLE} steps for each",
            "Lower schedule.cycles, or raise training.steps.",
        )


def _point_problems(schedule: Points, steps: int) -> Iterator[Problem]:
    points = schedule.points
    if not points:
        yield warning(
            "schedule.points",
            "the curve has no points",
            "The learning rate stays constant",
            "Add points, or choose another schedule.",
            fix=Fix("schedule.kind", "constant"),
        )
        return
    is_ordered = True
    for index, (above, point) in enumerate(pairwise(points), start=1):
        if point.at < above.at:
            is_ordered = False
            yield Problem(
                f"schedule.points.{index}.at",
                f"{number_text(point.at)} comes before the point above it, {number_text(above.at)}",
                "Expected points in ascending order",
                "Sort them.",
            )
    # The curve is linear between the points: it is 0 throughout, or only at one of its ends.
    near = {round(point.at * steps) + side for point in points for side in (-1, 0, 1)}
    knots = {0, steps - 1} | {step for step in near if 0 <= step < steps}
    if is_ordered and not any(lr_multiplier(schedule, step=step, steps=steps) for step in knots):
        yield Problem(
            "schedule.points",
            "the learning rate is always 0",
            "Expected at least one point with a factor above 0 that applies to a step of the run",
            "Raise the factor of a point.",
        )


def _ema_problems(config: TrainConfig, steps: int) -> Iterator[Problem]:
    ema = config.ema
    if config.optimizer.is_schedule_free:
        yield Problem(
            "ema.use",
            f"{config.optimizer.title} averages the weights itself",
            "Expected no EMA with it",
            "Turn EMA off; finished files contain the optimizer's own average.",
            fix=Fix("ema.use", False),
        )
    elif ema.every > steps:
        yield Problem(
            "ema.every",
            f"with an update every {ema.every} steps, a run of {steps} steps has no EMA update",
            f"Expected at most training.steps = {steps}",
            "Lower it.",
            fix=Fix("ema.every", 1),
        )
    elif not ema.ramp and ema.decay**steps >= MAX_INITIAL_FRACTION:
        yield warning(
            "ema.decay",
            f"after {steps} steps, {ema.decay**steps:.0%} of the EMA is still the model before"
            " training",
            f"Expected less than {MAX_INITIAL_FRACTION:.0%}",
            "Turn ema.ramp on, or lower the decay.",
            fix=Fix("ema.ramp", True),
        )


def _validation_problems(config: TrainConfig, steps: int) -> Iterator[Problem]:
    section = config.validation
    if not (section.every or section.at_start or section.at_end):
        yield Problem(
            "validation.every",
            "validation images are set aside but never measured",
            "Expected validation at an interval, at the start or at the end",
            "Set validation.every, or turn off validation.use to train on all images.",
            fix=Fix("validation.every", DEFAULT_INTERVAL),
        )
    if not section.patience:
        return
    if not section.every:
        yield Problem(
            "validation.patience",
            "training cannot stop early, because nothing is measured before its end",
            'Expected "Validate every" (validation.every) to be set',
            "Set validation.every, or set the patience to 0.",
            fix=Fix("validation.every", DEFAULT_INTERVAL),
        )
    elif (
        isinstance(section.every, int)
        and (earliest := section.every * (section.patience + (not section.at_start))) >= steps
    ):
        yield warning(
            "validation.patience",
            f"training cannot stop early: {section.patience} validations without improvement take"
            f" at least {earliest} steps, and the run has {steps}",
            "Expected a patience shorter than the run",
            "Lower validation.patience or validation.every.",
        )
