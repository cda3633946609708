"""Rules of the learning rate schedule and the EMA."""

from collections.abc import Sequence
from itertools import pairwise

from onetrainer.config.run.schedule import CosineRestarts, CosineWaves, Point, Points
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem
from onetrainer.schedules.learning_rate import lr_multiplier, warmup_steps

MAX_INITIAL_FRACTION = 0.1  # fraction of the final EMA that is the model before training
MIN_STEPS_PER_CYCLE = 2  # with a single step per cycle the rate is always at its full value


def problems(config: TrainConfig) -> list[Problem]:
    """Return problems of the learning rate schedule and the EMA."""
    if isinstance(config.schedule, Points):
        found = _point_problems(config.schedule, steps=config.training.steps)
    else:
        found = _warmup_problems(config) or _cycle_problems(config)
    return [*found, *_ema_problems(config)]


def _warmup_problems(config: TrainConfig) -> list[Problem]:
    schedule, steps = config.schedule, config.training.steps
    if isinstance(schedule, Points):
        return []
    if schedule.warmup_steps and schedule.warmup_fraction:
        return [
            Problem(
                "schedule.warmup_fraction",
                f"the warm-up is set twice: {schedule.warmup_steps} steps, and a fraction of"
                f" {schedule.warmup_fraction:g}",
                "Expected one of the two",
                "Set schedule.warmup_fraction or schedule.warmup_steps to 0.",
                fix=Fix("schedule.warmup_fraction", 0),
            )
        ]
    warmup = warmup_steps(schedule, steps=steps)
    if warmup < steps:
        return []
    name = "warmup_steps" if schedule.warmup_steps else "warmup_fraction"
    return [
        Problem(
            f"schedule.{name}",
            f"the warm-up ({warmup} steps) is not shorter than the run ({steps} steps)",
            f"Expected fewer than training.steps = {steps}",
            f"Lower schedule.{name}, or raise training.steps.",
        )
    ]


def _cycle_problems(config: TrainConfig) -> list[Problem]:
    schedule = config.schedule
    if not isinstance(schedule, CosineRestarts | CosineWaves):
        return []
    steps = config.training.steps - warmup_steps(schedule, steps=config.training.steps)
    if schedule.cycles * MIN_STEPS_PER_CYCLE <= steps:
        return []
    return [
        Problem(
            "schedule.cycles",
            f"{schedule.cycles:g} cycles are too many for the {steps} steps after the warm-up",
            f"Expected at least {MIN_STEPS_PER_CYCLE} steps for each",
            "Lower schedule.cycles, or raise training.steps.",
        )
    ]


def _point_problems(schedule: Points, *, steps: int) -> list[Problem]:
    points = schedule.points
    if not points:
        return [
            Problem(
                "schedule.points",
                "the curve has no points",
                "The learning rate stays constant",
                "Add points, or choose another schedule.",
                "warning",
                Fix("schedule.kind", "constant"),
            )
        ]
    unordered = [
        Problem(
            f"schedule.points.{index}.at",
            f"{point.at:g} comes before the point above it, {above.at:g}",
            "Expected points in ascending order",
            "Sort them.",
        )
        for index, (above, point) in enumerate(pairwise(points), start=1)
        if point.at < above.at
    ]
    if unordered or any(
        lr_multiplier(schedule, step=step, steps=steps) for step in _knots(points, steps)
    ):
        return unordered
    return [
        Problem(
            "schedule.points",
            "the learning rate is always 0",
            "Expected at least one point with a factor above 0 that applies to a step of the run",
            "Raise the factor of a point.",
        )
    ]


def _knots(points: Sequence[Point], steps: int) -> list[int]:
    """Return the steps on both sides of each point, the first and the last.

    The curve is linear in between: it is 0 throughout, or only at one of its ends.
    """
    near = {round(point.at * steps) + side for point in points for side in (-1, 0, 1)}
    return sorted({0, steps - 1} | {step for step in near if 0 <= step < steps})


def _ema_problems(config: TrainConfig) -> list[Problem]:
    ema, steps = config.ema, config.training.steps
    if not ema.use:
        return []
    if config.optimizer.is_schedule_free:
        return [
            Problem(
                "ema.use",
                f"{config.optimizer.title} averages the weights itself",
                "Expected no EMA with it",
                "Turn EMA off; finished files contain the optimizer's own average.",
                fix=Fix("ema.use", False),
            )
        ]
    if ema.every > steps:
        return [
            Problem(
                "ema.every",
                f"with an update every {ema.every} steps, a run of {steps} steps has no EMA update",
                f"Expected at most training.steps = {steps}",
                "Lower it.",
                fix=Fix("ema.every", 1),
            )
        ]
    initial = ema.decay**steps
    if ema.ramp or initial < MAX_INITIAL_FRACTION:
        return []
    return [
        Problem(
            "ema.decay",
            f"after {steps} steps, {initial:.0%} of the EMA is still the model before training",
            f"Expected less than {MAX_INITIAL_FRACTION:.0%}",
            "Turn ema.ramp on, or lower the decay.",
            "warning",
            Fix("ema.ramp", True),
        )
    ]
