"""Statistics of validation losses: means, confidence bands, differences and a verdict.

Losses vary over images: the result should hold for unseen images, and the noise levels of one image
say little about others. So each image's losses are averaged first, and bands come from the spread
over images. Two measurements are compared image by image, since some images are harder than others
at every step, which must not hide a change common to all.

The verdict needs more than the reported 95 % bands. The newest measurement is compared with the
lowest of k earlier ones, and some of k differences soon exceed 95 % by chance; so each has to
exceed 1 - 0.05 / k (Bonferroni's inequality). And since a chance result seldom repeats, only the
second rise in a row is called overfitting.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from statistics import NormalDist, fmean, stdev

from onetrainer.run.events import Verdict

CONFIDENCE = 0.95
FEW_IMAGES = 4
"""With fewer images, a 95 % band is at least four standard errors wide and says little."""
_NO_CHANGE = 5e-5  # as a fraction: less than two digits of a percent can show
_FEW_DEGREES = 500
"""Up to this, Student's distribution is summed; beyond, it is expanded."""


@dataclass(frozen=True)
class Measurement:
    """The losses of the validation images after a step.

    losses: Losses by image name, ordered by noise level, then by noise. noises: Number of noises
    per level. All measurements of a run have the same images and the same number of losses.
    """

    step: int
    losses: Mapping[str, Sequence[float]]
    noises: int = 1

    @cached_property
    def means(self) -> dict[str, float]:
        """The mean loss of each image."""
        return {name: fmean(losses) for name, losses in self.losses.items()}

    @cached_property
    def loss(self) -> float:
        """The mean over images."""
        return fmean(self.means.values())


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
class ValidationSummary:
    """The verdict on the newest measurement of a run.

    loss: The mean over images. since_start, since_best: Paired difference to the first measurement,
    and to the best before this one; negative is better, None for the first. best_step: Step of the
    lowest loss so far, which may be this one. by_level: Means from low to high noise. words: One or
    two sentences.
    """

    loss: Band
    since_start: Band | None
    since_best: Band | None
    best_step: int
    is_best: bool
    by_level: list[float]
    verdict: Verdict
    words: str


def judge(history: Sequence[Measurement]) -> ValidationSummary:
    """Return the verdict on the newest measurement of a history.

    *improving*: it is the best so far, and significantly lower than the best before it, or than the
    last one called improving; otherwise many small gains would each count as none, however large
    their sum. *overfitting*: it is significantly higher than the best before it or than the first,
    and so was the one before it. *flat*: neither. *Significantly* means beyond the band of the
    difference, corrected for the number of comparisons.
    """
    *earlier, newest = history
    loss = band(list(newest.means.values()))
    if not earlier:
        count = f"{len(newest.losses)} image{'s' if len(newest.losses) > 1 else ''}"
        words = f"{_loss_text(newest)} on {count}."
        return ValidationSummary(
            loss, None, None, newest.step, True, by_level(newest), "first", words
        )
    before = best_of(earlier)
    is_best, verdict = newest.loss < before.loss, _verdict(history)
    return ValidationSummary(
        loss=loss,
        since_start=difference(newest, earlier[0]),
        since_best=difference(newest, before),
        best_step=newest.step if is_best else before.step,
        is_best=is_best,
        by_level=by_level(newest),
        verdict=verdict,
        words=_words(verdict, history),
    )


def best_of(history: Sequence[Measurement]) -> Measurement:
    """Return the measurement with the lowest loss, the first of equals."""
    return min(history, key=lambda measurement: measurement.loss)


def surely_best(history: Sequence[Measurement]) -> Measurement:
    """Return the last measurement called improving; the first if there is none."""
    sure = best = history[0]
    for count, measurement in enumerate(history[1:], start=1):
        if measurement.loss >= best.loss:
            continue
        if any(_difference(measurement, older, count).is_below_zero for older in (best, sure)):
            sure = measurement
        best = measurement
    return sure


def without_gain(history: Sequence[Measurement]) -> int:
    """Return how many measurements after the best one there are."""
    if not history:
        return 0
    best = best_of(history).step
    return sum(measurement.step > best for measurement in history)


def difference(newer: Measurement, older: Measurement, *, confidence: float = CONFIDENCE) -> Band:
    """Return the mean paired difference over images, negative if the newer measurement is lower.

    For a single image, the pairs are its noise levels. This says nothing about other images, but
    shows whether a change exceeds the variation between noises.
    """
    if len(newer.losses) > 1:
        old_means = older.means
        changes = [mean - old_means[name] for name, mean in newer.means.items()]
        return band(changes, confidence=confidence)
    ((name, losses),) = newer.losses.items()
    changes = [new - old for new, old in zip(losses, older.losses[name], strict=True)]
    return band(changes, confidence=confidence)


def band(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Band:
    """Return the mean of values with its confidence band."""
    if len(values) < 2:
        return Band(values[0], None)
    quantile = student_quantile(len(values) - 1, confidence)
    return Band(fmean(values), quantile * stdev(values) / math.sqrt(len(values)))


def by_level(measurement: Measurement) -> list[float]:
    """Return the mean over images and noises at each noise level, from low to high noise."""
    rows = list(measurement.losses.values())
    levels = len(rows[0]) // measurement.noises
    return [
        fmean(
            loss
            for row in rows
            for loss in row[level * measurement.noises : (level + 1) * measurement.noises]
        )
        for level in range(levels)
    ]


def by_concept(measurement: Measurement, concepts: Mapping[str, str]) -> dict[str, float]:
    """Return the mean over the images of each concept. concepts: Concepts by image name."""
    means_of: dict[str, list[float]] = {}
    for name, mean in measurement.means.items():
        means_of.setdefault(concepts[name], []).append(mean)
    return {concept: fmean(means) for concept, means in sorted(means_of.items())}


def by_concepts(
    history: Sequence[Measurement], concepts: Mapping[str, str]
) -> dict[str, dict[str, float | None]]:
    """Return the newest measurement of each concept, computed from its images alone.

    By concept: "loss", and its differences "since_start" and "since_best" (since this concept's own
    best); each with half of its 95 % band ("error", "since_start_error", "since_best_error"). None
    where there is nothing to compare with, or no band.
    """
    values = {}
    for concept in sorted({concepts[name] for name in history[-1].losses}):
        names = {name for name in concepts if concepts[name] == concept}
        values[concept] = _concept_values([_restricted(each, names) for each in history])
    return values


def _restricted(measurement: Measurement, names: set[str]) -> Measurement:
    losses = {name: row for name, row in measurement.losses.items() if name in names}
    return Measurement(measurement.step, losses, measurement.noises)


def _concept_values(history: Sequence[Measurement]) -> dict[str, float | None]:
    *earlier, newest = history
    loss = band(list(newest.means.values()))
    values: dict[str, float | None] = {"loss": loss.mean, "error": loss.error}
    for name, older in (("since_start", earlier[:1]), ("since_best", earlier)):
        change = difference(newest, best_of(older)) if older else None
        values[name] = change.mean if change else None
        values[f"{name}_error"] = change.error if change else None
    return values


@cache
def student_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Return the half width of the band of a mean in standard errors.

    degrees: Degrees of freedom, from 1. confidence: Below 1. The result is exact to 1e-9 at 95 %,
    and to 1e-6 relative error up to 1 - 1e-6.
    Source: Abramowitz & Stegun 1964, 26.7.3 and 26.7.4, inverted by bisection, and their expansion
    26.7.5 for many degrees of freedom.
    """
    if degrees > _FEW_DEGREES:
        return _expanded_quantile(degrees, confidence)
    low, high = 0.0, 16.0
    while (
        _probability_within(high, degrees) < confidence
    ):  # with one degree it grows like 1 / (1 - p)
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (
            (middle, high) if _probability_within(middle, degrees) < confidence else (low, middle)
        )
    return (low + high) / 2


def percent(fraction: float) -> str:
    """Format the absolute value of a fraction with two digits: "0.31 %", "8.2 %", "45 %"."""
    hundredths = abs(fraction) * 100
    digits = 0 if hundredths >= 10 else 1 if hundredths >= 1 else 2
    return f"{hundredths:.{digits}f} %"


def _probability_within(t: float, degrees: int) -> float:
    """Return the probability that Student's t is within ±t."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    term, total = (cosine, 0.0) if degrees % 2 else (1.0, 0.0)
    for number in range(degrees % 2, degrees - 1, 2):
        total += term
        term *= (number + 1) / (number + 2) * cosine**2
    return 2 / math.pi * (angle + sine * total) if degrees % 2 else sine * total


def _expanded_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    x = NormalDist().inv_cdf((1 + confidence) / 2)
    terms = (
        x,
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
    )
    return sum(term / float(degrees) ** power for power, term in enumerate(terms))


def _difference(newer: Measurement, older: Measurement, count: int) -> Band:
    """Return the difference with the band for verdicts. count: Number of comparisons."""
    return difference(newer, older, confidence=1 - (1 - CONFIDENCE) / count)


def _verdict(history: Sequence[Measurement]) -> Verdict:
    """Return the verdict on the newest measurement of at least two."""
    *earlier, newest = history
    best, count = best_of(earlier), len(earlier)
    if newest.loss < best.loss:
        references = (best, surely_best(earlier))
        is_lower = any(_difference(newest, older, count).is_below_zero for older in references)
        return "improving" if is_lower else "flat"
    return "overfitting" if _is_worse(history) and _is_worse(earlier) else "flat"


def _is_worse(history: Sequence[Measurement]) -> bool:
    """Return whether the newest is significantly higher than the best before it, or the first."""
    *earlier, newest = history
    references = (best_of(earlier), earlier[0]) if earlier else ()
    return any(_difference(newest, older, len(earlier)).is_above_zero for older in references)


def _words(verdict: Verdict, history: Sequence[Measurement]) -> str:
    """Return the verdict on the newest measurement of at least two as sentences."""
    start, newest = history[0], history[-1]
    first = "the start" if start.step == 0 else f"that of step {start.step:,}"
    text = f"{_loss_text(newest)}, {compared(newest.loss, start.loss)} {first}"
    caution = "" if len(newest.losses) > 1 else " A single image says little about others."
    return f"{text}: {_verdict_text(verdict, history)}{caution}"


def _verdict_text(verdict: Verdict, history: Sequence[Measurement]) -> str:
    *earlier, newest = history
    start, best = earlier[0], best_of(earlier)
    known = f"step {best.step:,}, the best ({format_loss(best.loss)})"
    is_above_start = _difference(newest, start, len(earlier)).is_above_zero
    if verdict == "improving":
        return "still improving."
    if verdict == "overfitting" and is_above_start:
        return f"worse than {when(start.step)}, so the learning rate may be too high."
    if verdict == "overfitting":
        return f"clearly worse than {known}: the model begins to memorize (overfitting)."
    if _is_worse(history):
        reference = when(start.step) if is_above_start else known
        return f"worse than {reference}; the next one will show more."
    return _unsure_text(newest, best=best, start=start)


def _unsure_text(newest: Measurement, *, best: Measurement, start: Measurement) -> str:
    """Return the text for a change that may be chance. best: The best before the newest."""
    images = len(newest.losses)
    is_few = 1 < images < FEW_IMAGES  # a single one has a sentence of its own
    if newest.loss < best.loss:
        if is_few:
            return f"the best so far, but not significantly with only {images} images."
        since = f"step {best.step:,}" if best.step else "the start"
        return f"the best so far, but no significant change since {since}."
    few = f" with only {images} images" if is_few else ""
    if best is start:
        return f"no significant change so far{few}."
    return (
        f"no significant change{few} since step {best.step:,}, the best ({format_loss(best.loss)})."
    )


def compared(loss: float, reference: float) -> str:
    """Compare a loss with a reference: "8.2 % below", "about the same as"."""
    change = loss / reference - 1 if reference else 0.0
    if abs(change) < _NO_CHANGE:
        return "about the same as"
    return f"{percent(change)} {'below' if change < 0 else 'above'}"


def when(step: int) -> str:
    """Format a step as a time: "at step 300", "before training"."""
    return f"at step {step:,}" if step else "before training"


def format_loss(loss: float) -> str:
    """Format a loss with three digits: "0.112"."""
    return f"{loss:.3g}"


def _loss_text(measurement: Measurement) -> str:
    return f"Validation loss {format_loss(measurement.loss)}"
