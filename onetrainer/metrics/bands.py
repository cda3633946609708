"""Means with confidence bands, and differences in pairs between measurements of the same things.

A measurement has several values of each image or prompt. They say little about other images, so
each one's are averaged first, and bands come from the spread over images. Two measurements are
compared image by image: that some are harder than others must not hide a change common to all.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from statistics import fmean, stdev
from typing import Literal

CONFIDENCE = 0.95
Trend = Literal["first", "lower", "higher", "same"]


@dataclass(frozen=True)
class Band:
    """A mean and half the width of its confidence band; None if a single value has none.

    The band contains the mean over all such images with 95 % confidence, unless stated otherwise.
    """

    mean: float
    error: float | None

    @property
    def is_below_zero(self) -> bool:
        """Return whether the whole band is below zero."""
        return self.error is not None and self.mean + self.error < 0

    @property
    def is_above_zero(self) -> bool:
        """Return whether the whole band is above zero."""
        return self.error is not None and self.mean - self.error > 0


@dataclass(frozen=True)
class Measurement:
    """The values of all images, or prompts, after a step.

    values: By name; losses are ordered by noise level, then by noise. noises: Number of noises per
    level. All measurements of a run have the same names and the same number of values.
    """

    step: int
    values: Mapping[str, Sequence[float]]
    noises: int = 1

    @cached_property
    def means(self) -> dict[str, float]:
        """The mean value of each name."""
        return {name: _mean(values) for name, values in self.values.items()}

    @cached_property
    def mean(self) -> float:
        """The mean over names."""
        return _mean(self.means.values())

    @property
    def band(self) -> Band:
        """The mean over names with its band."""
        return band(list(self.means.values()))


def _mean(values: Collection[float]) -> float:
    """Return the mean; NaN of infinities of both signs, for which `fmean` raises an error."""
    return fmean(values) if all(map(math.isfinite, values)) else sum(values) / len(values)


def best_of(history: Sequence[Measurement]) -> Measurement:
    """Return the measurement with the lowest mean, the first of equals."""
    return min(history, key=lambda measurement: measurement.mean)


def without_gain(history: Sequence[Measurement]) -> int:
    """Return how many measurements after the best one there are."""
    best = best_of(history).step if history else 0
    return sum(measurement.step > best for measurement in history)


def trends(history: Sequence[Measurement]) -> list[Trend]:
    """Return for each measurement whether it is significantly lower or higher than those before.

    *lower*: it is the lowest so far, and significantly lower than the lowest before it, or than the
    last one called lower; otherwise many small steps would each count as none, however large their
    sum. *higher*: it is significantly higher than the lowest before it or than the first.

    Among k differences some soon exceed 95 % by chance. *Significantly* therefore means beyond the
    band of 1 - 0.05 / k for the k-th measurement after the first (Bonferroni's inequality).
    """
    found: list[Trend] = ["first"]
    best = known_lower = history[0]
    for count, newest in enumerate(history[1:], start=1):
        trend: Trend = "same"
        if newest.mean < best.mean:
            changes = (difference(newest, older, tests=count) for older in (best, known_lower))
            if any(change.is_below_zero for change in changes):
                trend, known_lower = "lower", newest
            best = newest
        else:
            changes = (difference(newest, older, tests=count) for older in (best, history[0]))
            trend = "higher" if any(change.is_above_zero for change in changes) else "same"
        found.append(trend)
    return found


def difference(newer: Measurement, older: Measurement, *, tests: int = 1) -> Band:
    """Return the mean paired difference over names, negative if the newer measurement is lower.

    Of a single image, the pairs are its noise levels. This says nothing about other images, but
    shows whether a change exceeds the variation between noises. tests: Number of such comparisons,
    for which the band is widened.
    """
    if len(newer.values) > 1:
        changes = [mean - older.means[name] for name, mean in newer.means.items()]
    else:
        ((name, values),) = newer.values.items()
        changes = [new - old for new, old in zip(values, older.values[name], strict=True)]
    return band(changes, confidence=1 - (1 - CONFIDENCE) / tests)


def band(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Band:
    """Return the mean of values with its confidence band."""
    if len(values) < 2:
        return Band(values[0], None)
    quantile = student_quantile(len(values) - 1, confidence)
    return Band(fmean(values), quantile * stdev(values) / math.sqrt(len(values)))


@cache
def student_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Return the half width of the band of a mean in standard errors.

    degrees: Degrees of freedom, from 1. confidence: Below 1. Neither the standard library nor numpy
    has Student's distribution. The result is exact to 1e-9 at 95 %, and to 1e-6 relative error up
    to 1 - 1e-6. Source: Abramowitz & Stegun 1964, 26.7.3 and 26.7.4, inverted by bisection.
    """
    low, high = 0.0, 16.0
    while _probability_within(high, degrees) < confidence:  # with one degree like 1 / (1 - p)
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if _probability_within(middle, degrees) < confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _probability_within(t: float, degrees: int) -> float:
    """Return the probability that Student's t is within ±t."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    term, total = (cosine, 0.0) if degrees % 2 else (1.0, 0.0)
    for number in range(degrees % 2, degrees - 1, 2):
        total += term
        term *= (number + 1) / (number + 2) * cosine**2
    return 2 / math.pi * (angle + sine * total) if degrees % 2 else sine * total
