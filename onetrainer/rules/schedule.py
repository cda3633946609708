"""What is wrong between the schedule, the average and the other settings."""

from collections.abc import Sequence
from itertools import pairwise

from onetrainer.config.run.schedule import CosineRestarts, CosineWaves, Point, Points
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix, Problem
from onetrainer.schedules.learning_rate import lr_multiplier, warmup_steps

MUCH_OF_THE_START = 0.1  # share of the finished average that was never trained
LEAST_PER_CYCLE = 2  # steps; with one for each the rate is always at its full value


def problems(config: TrainConfig) -> list[Problem]:
    """Problems of the learning rate schedule and of the running average."""
    return [*_schedule_problems(config), *_average_problems(config)]


def _schedule_problems(config: TrainConfig) -> list[Problem]:
    if isinstance(config.schedule, Points):
        return _point_problems(config.schedule, steps=config.training.steps)
    return _warmup_problems(config) or _cycle_problems(config)


def _warmup_problems(config: TrainConfig) -> list[Problem]:
    schedule, steps = config.schedule, config.training.steps
    if isinstance(schedule, Points):
        return []
    if schedule.warmup_steps and schedule.warmup_fraction:
        return [
            Problem(
                "schedule.warmup_fraction",
                f"the warm-up is told twice: {schedule.warmup_steps} steps, and a share of"
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
            f"{warmup} warm-up steps leave no step of the run",
            f"Expected fewer than training.steps = {steps}",
            f"Lower schedule.{name}, or raise training.steps.",
        )
    ]


def _cycle_problems(config: TrainConfig) -> list[Problem]:
    schedule = config.schedule
    if not isinstance(schedule, CosineRestarts | CosineWaves):
        return []
    steps = config.training.steps - warmup_steps(schedule, steps=config.training.steps)
    if schedule.cycles * LEAST_PER_CYCLE <= steps:
        return []
    return [
        Problem(
            "schedule.cycles",
            f"{schedule.cycles:g} cycles are too many for the {steps} steps after the warm-up",
            f"Expected at least {LEAST_PER_CYCLE} steps for each",
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
                "The learning rate stays the same to the end",
                "Add points, or choose another schedule.",
                "warning",
                Fix("schedule.kind", "constant"),
            )
        ]
    unordered = [
        Problem(
            f"schedule.points.{place}.at",
            f"{point.at:g} comes before the point above it, {above.at:g}",
            "Expected points in their order",
            "Put them in order.",
        )
        for place, (above, point) in enumerate(pairwise(points), start=1)
        if point.at < above.at
    ]
    if unordered or any(
        lr_multiplier(schedule, step=step, steps=steps) for step in _bends(points, steps)
    ):
        return unordered
    return [
        Problem(
            "schedule.points",
            "the learning rate is 0 all the time",
            "Expected a share above 0 in one point at least, and a step of the run where it counts",
            "Raise one of them.",
        )
    ]


def _bends(points: Sequence[Point], steps: int) -> list[int]:
    """The steps on both sides of each point, and the first and the last.

    In between the curve is a line, which is 0 throughout or at one of its ends only.
    """
    near = {round(point.at * steps) + side for point in points for side in (-1, 0, 1)}
    return sorted({0, steps - 1} | {step for step in near if 0 <= step < steps})


def _average_problems(config: TrainConfig) -> list[Problem]:
    ema, steps = config.ema, config.training.steps
    if not ema.use:
        return []
    if config.optimizer.is_schedule_free:
        return [
            Problem(
                "ema.use",
                f"{config.optimizer.title} averages the weights itself",
                "An average of what it trains with would be of other weights than those it is good"
                " at",
                "Turn the average off; finished files hold the optimizer's own.",
                fix=Fix("ema.use", False),
            )
        ]
    if ema.every > steps:
        return [
            Problem(
                "ema.every",
                f"every {ema.every} steps means never in a run of {steps}",
                f"Expected at most training.steps = {steps}",
                "Lower it.",
                fix=Fix("ema.every", 1),
            )
        ]
    rest = ema.decay**steps
    if ema.ramp or rest < MUCH_OF_THE_START:
        return []
    return [
        Problem(
            "ema.decay",
            f"after {steps} steps, {rest:.0%} of the average is still the model before training",
            "A ramp lets the first steps count more",
            "Turn ema.ramp on, or lower the decay.",
            "warning",
            Fix("ema.ramp", True),
        )
    ]
