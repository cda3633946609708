"""Random choice of the sampling steps that a reward's gradient passes through.

`chance` is a number in [0, 1), drawn for each image. All parameters are fractions of the number of
steps, so that a setting means the same for 5 steps and for 50.
"""

import math

_ROUNDING = 1e-9  # of a step: 0.1 * 30 is 3.0000000000000004, and that is 3 steps


def last_steps(chance: float, *, steps: int, least: float, most: float) -> int:
    """Return the number of last steps with a gradient, from 1 to all.

    least, most: Fractions of the steps, between which a fraction is drawn uniformly and rounded up.
    From 0 to 1 every number of steps is equally likely.
    Source: Prabhudesai et al. 2023, arXiv:2310.03739, which draws K uniformly from 0 to T.
    """
    fraction = least + chance * (most - least)
    return min(max(math.ceil(fraction * steps - _ROUNDING), 1), steps)


def mean_last_steps(*, steps: int, least: float, most: float) -> float:
    """Return the mean of `last_steps` over all chances, in closed form."""
    low, high = sorted((least * steps, most * steps))
    if high - low < _ROUNDING:
        return float(last_steps(0, steps=steps, least=least, most=most))
    # The integral of the fraction rounded up: 1 below the first step, n between n - 1 and n.
    total = 0.0
    for count in range(1, steps + 1):
        total += count * max(min(high, count) - max(low, count - 1), 0.0)
    return total / (high - low)


def late_step(chance: float, *, steps: int, earliest: float, latest: float) -> int:
    """Return the step, from 0, whose prediction is scored: between two fractions of the steps.

    Source: Xu et al. 2023, arXiv:2304.05977, algorithm 1 (ReFL).
    """
    fraction = earliest + chance * (latest - earliest)
    return min(math.floor(fraction * steps + _ROUNDING), steps - 1)


def mean_late_step(*, steps: int, earliest: float, latest: float) -> float:
    """Return the mean of `late_step` over all chances, in closed form."""
    low, high = sorted((earliest * steps, latest * steps))
    if high - low < _ROUNDING:
        return float(late_step(0, steps=steps, earliest=earliest, latest=latest))
    total = 0.0
    for number in range(steps):
        total += number * max(min(high, number + 1) - max(low, number), 0.0)
    return total / (high - low)


def early_calls(chance: float, *, steps: int, fraction: float) -> int:
    """Return the number of steps before the image is predicted; all of them if none is left out.

    Up to the fraction `fraction` of the steps is left out, each number with equal probability.
    Source: Wu et al. 2024, arXiv:2405.00760 (DRTune's early stop).
    """
    return steps - math.floor(chance * (_most_left_out(steps, fraction) + 1))


def mean_early_calls(*, steps: int, fraction: float) -> float:
    """Return the mean of `early_calls` over all chances."""
    return steps - _most_left_out(steps, fraction) / 2


def mean_spread_steps(*, steps: int, fraction: float, count: int) -> float:
    """Return the mean number of steps in `spread_steps` for `calls` from `early_calls`."""
    left_out = _most_left_out(steps, fraction)
    return sum(min(count, steps - number) for number in range(left_out + 1)) / (left_out + 1)


def spread_steps(chance: float, *, calls: int, count: int) -> tuple[int, ...]:
    """Return `count` of the first `calls` steps, evenly spaced with a random offset.

    Returns all of them if there are fewer. Every step is equally likely.
    Source: Wu et al. 2024, arXiv:2405.00760 (DRTune's trained steps).
    """
    count = min(count, calls)
    return tuple(min(int((place + chance) * calls / count), calls - 1) for place in range(count))


def _most_left_out(steps: int, fraction: float) -> int:
    return min(math.floor(fraction * steps + _ROUNDING), steps - 1)
