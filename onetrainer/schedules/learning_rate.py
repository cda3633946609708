"""Curves over a run as plain maths: drawn by the window, followed by the trainer."""

import math
from bisect import bisect_right
from collections.abc import Sequence

from onetrainer.config.run.schedule import (
    Constant,
    Cosine,
    CosineRestarts,
    CosineWaves,
    InverseSqrt,
    Linear,
    Point,
    Points,
    Polynomial,
    Rex,
    Schedule,
)

TIMESCALE = 10_000
"""Of the inverse square root without a warm-up, in steps; the same as in transformers."""


def lr_multiplier(schedule: Schedule, *, step: int, steps: int) -> float:
    """The learning rate of a step as a share of the full rate; above 1 only where points are.

    step: from 0, the step about to be made; steps: of the whole run. The rate rises from 0 over
    the warm-up, has its full value in the first step after it, and falls so that it would have its
    lowest in the step after the last: torch, transformers and diffusers count in this way, too.
    """
    warmup = warmup_steps(schedule, steps=steps)
    if step < warmup:
        return step / warmup
    done, total = step - warmup, max(1, steps - warmup)
    share = done / total
    match schedule:
        case Constant():
            return 1.0
        case Linear():
            return _above(schedule.min_factor, 1.0 - share)
        case Cosine():
            return _above(schedule.min_factor, _cosine(share))
        case CosineRestarts():
            # The remainder before dividing: a share that was rounded down would miss a restart.
            cycle = (schedule.cycles * done) % total / total
            return _above(schedule.min_factor, _cosine(cycle))
        case CosineWaves():
            return _above(schedule.min_factor, _cosine(2.0 * schedule.cycles * share))
        case Rex():
            left = 1.0 - share
            bent = left / (1.0 - schedule.bend + schedule.bend * left)
            return _above(schedule.min_factor, bent)
        case Polynomial():
            return _above(schedule.min_factor, (1.0 - share) ** schedule.power)
        case InverseSqrt():
            timescale = schedule.timescale or warmup or TIMESCALE
            return math.sqrt(timescale / (timescale + done))
        case Points():
            return _between(schedule.points, share) if schedule.points else 1.0


def warmup_steps(schedule: Schedule, *, steps: int) -> int:
    """How many steps of a run the warm-up takes; a curve of points has none."""
    if isinstance(schedule, Points):
        return 0
    return schedule.warmup_steps or round(schedule.warmup_fraction * steps)


def _cosine(share: float) -> float:
    """From 1 at 0 to 0 at 1, and back up after that."""
    return 0.5 * (1.0 + math.cos(math.pi * share))


def _above(lowest: float, share: float) -> float:
    return lowest + (1.0 - lowest) * share


def _between(points: Sequence[Point], share: float) -> float:
    """The factor at a share of the run, of at least one point; of two at one place the later."""
    after = bisect_right(points, share, key=lambda point: point.at)
    if after == 0:
        return points[0].factor
    left = points[after - 1]
    if after == len(points):
        return left.factor
    right = points[after]
    way = (share - left.at) / (right.at - left.at)
    return left.factor + (right.factor - left.factor) * way
