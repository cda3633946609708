"""Curves over a run as plain maths: drawn by the window, followed by the trainer."""

import math

from onetrainer.config.schedule import ScheduleKind


def lr_multiplier(kind: ScheduleKind, *, step: int, steps: int, warmup_steps: int) -> float:
    """The learning rate of a step as a share of the full rate, in [0, 1].

    step: from 0, the step about to be made. The rate rises from 0 over the warm-up, has its full
    value in the first step after it, and falls so that it would be zero in the step after the last.
    """
    if step < warmup_steps:
        return step / warmup_steps
    if kind == "constant":
        return 1.0
    share = (step - warmup_steps) / max(1, steps - warmup_steps)
    if kind == "linear":
        return 1.0 - share
    return 0.5 * (1.0 + math.cos(math.pi * share))
