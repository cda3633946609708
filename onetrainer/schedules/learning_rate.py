"""Learning rate schedules: plotted by the window, used by the trainer."""

import math
from bisect import bisect_right
from collections.abc import Sequence

from onetrainer.config.base.amount import known
from onetrainer.config.run.schedule import (
    Constant,
    Cosine,
    CosineRestarts,
    CosineWaves,
    Curve,
    CustomSchedule,
    InverseSqrt,
    Linear,
    Point,
    Points,
    Polynomial,
    Rex,
    Schedule,
)

TIMESCALE = 10_000
"""Default of the inverse square root without a warm-up, in steps; the same as in transformers."""


def lr_multiplier(schedule: Curve, *, step: int, steps: int) -> float:
    """Return the learning rate of a step as a fraction of the full rate.

    The rate rises from 0 over the warm-up, has its full value in the first step after it, and falls
    so that it would reach its minimum one step after the last, as in torch, transformers and
    diffusers. Only custom points can exceed 1.

    Args:
        schedule: The schedule.
        step: The step about to be made, from 0.
        steps: The steps of the whole run.
    """
    warmup = warmup_steps(schedule, steps=steps)
    if step < warmup:
        return step / warmup
    done, total = step - warmup, max(1, steps - warmup)
    progress = done / total
    match schedule:
        case Constant():
            return 1.0
        case Linear():
            return _scaled(schedule.min_factor, 1.0 - progress)
        case Cosine():
            return _scaled(schedule.min_factor, _cosine(progress))
        case CosineRestarts():
            # The remainder before dividing: a rounded fraction could miss a restart.
            cycle = (schedule.cycles * done) % total / total
            return _scaled(schedule.min_factor, _cosine(cycle))
        case CosineWaves():
            return _scaled(schedule.min_factor, _cosine(2.0 * schedule.cycles * progress))
        case Rex():
            left = 1.0 - progress
            bent = left / (1.0 - schedule.bend + schedule.bend * left)
            return _scaled(schedule.min_factor, bent)
        case Polynomial():
            return _scaled(schedule.min_factor, (1.0 - progress) ** schedule.power)
        case InverseSqrt():
            timescale = schedule.timescale or warmup or TIMESCALE
            return math.sqrt(timescale / (timescale + done))
        case Points():
            return _interpolated(schedule.points, progress) if schedule.points else 1.0


def warmup_steps(schedule: Schedule, *, steps: int) -> int:
    """Return the number of warm-up steps of a run; custom points and functions have none."""
    if isinstance(schedule, Points | CustomSchedule):
        return 0
    return known(schedule.warmup_steps) or round(schedule.warmup_fraction * steps)


def _cosine(progress: float) -> float:
    """Return a cosine that falls from 1 at 0 to 0 at 1, and rises again after that."""
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def _scaled(lowest: float, factor: float) -> float:
    return lowest + (1.0 - lowest) * factor


def _interpolated(points: Sequence[Point], progress: float) -> float:
    """Return the factor at a fraction of the run; of two points at one position, the later."""
    after = bisect_right(points, progress, key=lambda point: point.at)
    if after == 0:
        return points[0].factor
    left = points[after - 1]
    if after == len(points):
        return left.factor
    right = points[after]
    weight = (progress - left.at) / (right.at - left.at)
    return left.factor + (right.factor - left.factor) * weight
