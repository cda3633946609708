"""Distributions of timesteps: plotted by the window, sampled by the trainer.

A distribution has a shape over [0, 1], where 0 is a clean image and 1 is pure noise. The shape is
shifted, then scaled into the range of the settings, so that the range holds for any shift. Each is
defined by its cumulative distribution in closed form, so that plot and samples are exact for any
shape.
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

# A smaller slope of a sigmoid is lost in rounding; the shape is uniform to a millionth.
_MIN_SLOPE = 1e-6
# Enough for parameters up to 20, for which the fraction converges slowest.
_FRACTION_TERMS = 80
_BISECTIONS = 60  # of [0, 1]: beyond the precision of a float


def density(section: Timesteps, steps: int = 1000) -> list[float]:
    """Return the probability of each timestep from 0 to steps - 1; their sum is 1.

    Timestep t covers the noise levels from t / steps to (t + 1) / steps.

    Raises ValueError: the range is empty.
    """
    if section.lowest >= section.highest:
        raise ValueError(f"no timesteps between {section.lowest} and {section.highest}")
    cumulative = [fraction_below(section, step / steps) for step in range(steps + 1)]
    masses = [max(0.0, upper - lower) for lower, upper in pairwise(cumulative)]
    total = math.fsum(masses)
    return [mass / total for mass in masses]


def fraction_below(section: Timesteps, level: float) -> float:
    """Return the cumulative probability below a noise level, both in [0, 1].

    The shift maps a level u to s·u / (1 + (s - 1)·u), as in Esser et al. 2024, arXiv:2403.03206,
    section 5.3.2.
    """
    inside = (level - section.lowest) / (section.highest - section.lowest)
    if inside <= 0:
        return 0.0
    if inside >= 1:
        return 1.0
    unshifted = inside / (section.shift - (section.shift - 1) * inside)
    if unshifted >= 1:  # by rounding
        return 1.0
    return _shape_below(section, unshifted)


def _shape_below(section: Timesteps, level: float) -> float:
    """Return the cumulative probability of the unshifted shape over [0, 1]."""
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
    """Return the normalized integral of 1 / (1 + exp(-slope·(u - center)))."""
    if abs(section.slope) < _MIN_SLOPE:
        return level

    def integral(level: float) -> float:
        # log(1 + exp(value)), without overflow
        value = section.slope * (level - section.center)
        return max(0.0, value) + math.log1p(math.exp(-abs(value)))

    start = integral(0)
    return (integral(level) - start) / (integral(1) - start)


def _parabola_below(section: InvertedParabola, level: float) -> float:
    """Return the normalized integral of max(0, 2 - curvature·(u - center)²)."""
    width = math.sqrt(2 / section.curvature) if section.curvature > 0 else math.inf
    start, end = max(0.0, section.center - width), min(1.0, section.center + width)

    def integral(level: float) -> float:
        distance = min(max(level, start), end) - section.center
        return 2 * distance - section.curvature * distance**3 / 3

    return (integral(level) - integral(start)) / (integral(end) - integral(start))


def _heavy_tail_below(scale: float, level: float) -> float:
    """Return the cumulative probability of 1 - u - scale·(cos²(πu/2) - 1 + u), u uniform in [0, 1].

    It falls in u for every allowed scale, so that u is found by bisection.
    Source: Esser et al. 2024, section 3.1.
    """
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        reached = 1 - middle - scale * (math.cos(math.pi / 2 * middle) ** 2 - 1 + middle)
        low, high = (middle, high) if reached > level else (low, middle)
    return 1 - (low + high) / 2


def _beta_below(alpha: float, beta: float, level: float) -> float:
    """Return the regularized incomplete beta function, by its continued fraction.

    Source: DLMF 8.17.22 and, for the far side, where the fraction converges slowly, 8.17.4.
    """
    if level > (alpha + 1) / (alpha + beta + 2):
        return 1 - _beta_below(beta, alpha, 1 - level)
    logarithm = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    logarithm += alpha * math.log(level) + beta * math.log1p(-level)
    fraction = 1.0
    for term in range(_FRACTION_TERMS, 0, -1):
        m = term // 2
        order = alpha + 2 * m
        if term % 2:
            coefficient = -(alpha + m) * (alpha + beta + m) / (order * (order + 1))
        else:
            coefficient = m * (beta - m) / ((order - 1) * order)
        fraction = 1 + coefficient * level / fraction
    return math.exp(logarithm) / (alpha * fraction)
