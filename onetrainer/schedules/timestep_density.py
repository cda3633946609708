"""How often each timestep is drawn: plotted by the window, followed by the engine.

A distribution has a shape over [0, 1], where 0 is a clean picture and 1 noise alone. The shape is
shifted, then squeezed into the range of the settings, each exactly once; so the range holds
whatever the shift. All follow from the share of draws below a level, in closed form, so that the
plot and the draws are exact however sharp a shape is.
"""

import math
from itertools import pairwise

from onetrainer.config.objectives.timesteps import (
    Beta,
    CosineMap,
    HeavyTail,
    InvertedParabola,
    LogitNormal,
    Sigmoid,
    Timesteps,
    Uniform,
)

# Below it the slope of a sigmoid is lost in rounding, and the shape is even to a millionth.
_SMALLEST_SLOPE = 1e-6
# Enough for both parameters up to 20, where the fraction converges slowest.
_FRACTION_TERMS = 80
_BISECTIONS = 60  # halvings of [0, 1]: past the precision of a float


def density(section: Timesteps, steps: int = 1000) -> list[float]:
    """The probability of each timestep from 0 to steps - 1; they add up to 1.

    Timestep t stands for the levels from t / steps to (t + 1) / steps.
    Raises ValueError if the range is empty.
    """
    if section.lowest >= section.highest:
        raise ValueError(f"no timesteps between {section.lowest} and {section.highest}")
    below = [share_below(section, place / steps) for place in range(steps + 1)]
    masses = [max(0.0, above - under) for under, above in pairwise(below)]
    total = math.fsum(masses)
    return [mass / total for mass in masses]


def share_below(section: Timesteps, level: float) -> float:
    """The share of draws below a level of noise, both in [0, 1].

    The shift takes a level u to s·u / (1 + (s - 1)·u), as in Esser et al. 2024, arXiv:2403.03206,
    section 5.3.2.
    """
    inside = (level - section.lowest) / (section.highest - section.lowest)
    if inside <= 0:
        return 0.0
    if inside >= 1:
        return 1.0
    unshifted = inside / (section.shift - (section.shift - 1) * inside)
    if unshifted >= 1:  # by rounding, one step below the highest
        return 1.0
    return _shape_below(section, unshifted)


def _shape_below(section: Timesteps, level: float) -> float:
    """The share of the unshifted shape over [0, 1] below a level inside it."""
    match section:
        case Uniform():
            return level
        case LogitNormal():
            logit = math.log(level) - math.log1p(-level)
            return 0.5 * math.erfc(-(logit - section.mean) / (section.spread * math.sqrt(2)))
        case Sigmoid():
            return _sigmoid_below(section, level)
        case Beta():
            return _beta_below(section.alpha, section.beta, level)
        case CosineMap():
            # The integral of 2 / (π - 2πu + 2πu²): Esser et al. 2024, section 3.1.
            return 2 / math.pi * math.atan2(level, 1 - level)
        case InvertedParabola():
            return _parabola_below(section, level)
        case HeavyTail():
            return _heavy_tail_below(section.scale, level)


def _sigmoid_below(section: Sigmoid, level: float) -> float:
    """The integral of 1 / (1 + exp(-slope·(u - center))) over its whole."""
    if abs(section.slope) < _SMALLEST_SLOPE:
        return level

    def integral(place: float) -> float:
        return _softplus(section.slope * (place - section.center))

    start = integral(0)
    return (integral(level) - start) / (integral(1) - start)


def _softplus(value: float) -> float:
    """log(1 + exp(value)), without overflow."""
    return max(0.0, value) + math.log1p(math.exp(-abs(value)))


def _parabola_below(section: InvertedParabola, level: float) -> float:
    """The integral of max(0, 2 - curvature·(u - center)²) over its whole."""
    width = math.sqrt(2 / section.curvature) if section.curvature > 0 else math.inf
    start, end = max(0.0, section.center - width), min(1.0, section.center + width)

    def integral(place: float) -> float:
        distance = min(max(place, start), end) - section.center
        return 2 * distance - section.curvature * distance**3 / 3

    return (integral(level) - integral(start)) / (integral(end) - integral(start))


def _heavy_tail_below(scale: float, level: float) -> float:
    """The share below a level of 1 - u - scale·(cos²(πu/2) - 1 + u), u being even in [0, 1].

    It falls in u for every allowed scale, so that u is found by halving.
    Source: Esser et al. 2024, section 3.1.
    """
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        reached = 1 - middle - scale * (math.cos(math.pi / 2 * middle) ** 2 - 1 + middle)
        low, high = (middle, high) if reached > level else (low, middle)
    return 1 - (low + high) / 2


def _beta_below(alpha: float, beta: float, level: float) -> float:
    """The regularized incomplete beta function, by its continued fraction.

    Source: DLMF 8.17.22 and, for the far side, where the fraction converges slowly, 8.17.4.
    """
    if level > (alpha + 1) / (alpha + beta + 2):
        return 1 - _beta_below(beta, alpha, 1 - level)
    logarithm = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    logarithm += alpha * math.log(level) + beta * math.log1p(-level)
    fraction = 1.0
    for term in range(_FRACTION_TERMS, 0, -1):
        m = term // 2
        place = alpha + 2 * m
        if term % 2:
            part = -(alpha + m) * (alpha + beta + m) / (place * (place + 1))
        else:
            part = m * (beta - m) / ((place - 1) * place)
        fraction = 1 + part * level / fraction
    return math.exp(logarithm) / (alpha * fraction)
