"""Which steps of a drawing a reward's gradient goes through: drawn as shares, counted in steps.

A chance is a number in [0, 1), drawn anew for each picture. Everything is a share of the steps, so
that a setting means the same of 5 steps and of 50.
"""

import math

_ROUNDING = 1e-9  # of a step: 0.1 * 30 is 3.0000000000000004, and that is 3 steps


def last_steps(chance: float, *, steps: int, least: float, most: float) -> int:
    """Through how many of the last steps the gradient goes, at least 1 and at most all.

    least, most: shares of the steps, between which the drawn share is uniform; it is rounded up.
    From 0 to 1 every number of steps is as likely as any other.
    Source: Prabhudesai et al. 2023, arXiv:2310.03739, which draws K uniformly from 0 to T.
    """
    share = least + chance * (most - least)
    return min(max(math.ceil(share * steps - _ROUNDING), 1), steps)


def mean_last_steps(*, steps: int, least: float, most: float) -> float:
    """The mean of `last_steps` over all chances, in closed form."""
    low, high = sorted((least * steps, most * steps))
    if high - low < _ROUNDING:
        return float(last_steps(0, steps=steps, least=least, most=most))
    # The share's integral, rounded up: 1 below the first step, n between n - 1 and n.
    total = 0.0
    for count in range(1, steps + 1):
        total += count * max(min(high, count) - max(low, count - 1), 0.0)
    return total / (high - low)


def late_step(chance: float, *, steps: int, earliest: float, latest: float) -> int:
    """From which step, counted from 0, a picture is foretold: between two shares of the steps.

    Source: Xu et al. 2023, arXiv:2304.05977, algorithm 1 (ReFL).
    """
    share = earliest + chance * (latest - earliest)
    return min(math.floor(share * steps + _ROUNDING), steps - 1)


def mean_late_step(*, steps: int, earliest: float, latest: float) -> float:
    """The mean of `late_step` over all chances, in closed form."""
    low, high = sorted((earliest * steps, latest * steps))
    if high - low < _ROUNDING:
        return float(late_step(0, steps=steps, earliest=earliest, latest=latest))
    total = 0.0
    for number in range(steps):
        total += number * max(min(high, number + 1) - max(low, number), 0.0)
    return total / (high - low)


def early_calls(chance: float, *, steps: int, share: float) -> int:
    """How many steps are taken before a picture is foretold; all of them where none is left out.

    Up to `share` of the steps are left out, each number of them as likely as any other.
    Source: Wu et al. 2024, arXiv:2405.00760 (DRTune's early stop).
    """
    return steps - math.floor(chance * (_most_left_out(steps, share) + 1))


def mean_early_calls(*, steps: int, share: float) -> float:
    """The mean of `early_calls` over all chances."""
    return steps - _most_left_out(steps, share) / 2


def mean_spread_steps(*, steps: int, share: float, count: int) -> float:
    """The mean number of steps that `spread_steps` gives of as many as `early_calls` does."""
    left_out = _most_left_out(steps, share)
    return sum(min(count, steps - number) for number in range(left_out + 1)) / (left_out + 1)


def spread_steps(chance: float, *, calls: int, count: int) -> tuple[int, ...]:
    """So many of the first `calls` steps, evenly apart, as far from the beginning as is drawn.

    Of fewer calls than that, all. Every step is as likely as any other.
    Source: Wu et al. 2024, arXiv:2405.00760 (DRTune's trained steps).
    """
    count = min(count, calls)
    return tuple(min(int((place + chance) * calls / count), calls - 1) for place in range(count))


def _most_left_out(steps: int, share: float) -> int:
    return min(math.floor(share * steps + _ROUNDING), steps - 1)
