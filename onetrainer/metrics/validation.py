"""What measurements of the held-out loss amount to: means, bands, differences, a verdict.

A picture is what the losses vary over: what is wanted is how well the model does on pictures that
it has not seen, and the noise levels of one picture say little about others. So each picture's
measurements are averaged first, and bands come from how the pictures differ. Two measurements are
compared picture by picture: some pictures are harder than others at every step, and that must not
hide a change that all of them show.

The verdict asks for more than the 95 % bands that are told. The newest measurement is compared
with the lowest of k before it, and of k differences some soon reach beyond 95 % by chance alone; so
each is to reach beyond 1 - 0.05 / k (Bonferroni's inequality). And what came by chance seldom comes
twice in a row, so a rise is called overfitting the second time only.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from statistics import NormalDist, fmean, stdev

from onetrainer.run.events import Verdict

CONFIDENCE = 0.95
FEW_IMAGES = 4
"""Of fewer pictures the mean of all others cannot be told: a 95 % band is as wide as four standard
errors or more."""
_NO_CHANGE = 5e-5  # as a share: what two digits of a percent would show as nothing
_FEW_DEGREES = 500
"""Up to so many degrees of freedom Student's distribution is summed, beyond it is expanded."""


@dataclass(frozen=True)
class Measurement:
    """The losses of the held-out pictures after a step.

    losses: by the picture's name, each of its measurements, in the order of the noise levels and
    then of the noises. noises: how many there are of each level. All measurements of a run have
    the same pictures and as many losses of each.
    """

    step: int
    losses: Mapping[str, Sequence[float]]
    noises: int = 1

    @cached_property
    def means(self) -> dict[str, float]:
        """Each picture's loss."""
        return {name: fmean(losses) for name, losses in self.losses.items()}

    @cached_property
    def loss(self) -> float:
        """The mean over pictures."""
        return fmean(self.means.values())


@dataclass(frozen=True)
class Band:
    """A mean with half the width of its band; None where a single value has none.

    The band is where the mean over all such pictures lies: 95 %, unless another is asked for.
    """

    mean: float
    error: float | None

    @property
    def is_below_zero(self) -> bool:
        """Whether all of the band is."""
        return self.error is not None and self.mean + self.error < 0

    @property
    def is_above_zero(self) -> bool:
        """Whether all of the band is."""
        return self.error is not None and self.mean - self.error > 0


@dataclass(frozen=True)
class Judged:
    """What the newest measurement of a run amounts to.

    loss: of the mean over pictures. since_start, since_best: its paired difference to the first
    measurement, and to the best before it; negative is better, None where it is the first.
    best_step: with the lowest loss so far, also the newest. by_level: from little noise to much.
    words: a sentence or two for people.
    """

    loss: Band
    since_start: Band | None
    since_best: Band | None
    best_step: int
    is_best: bool
    by_level: list[float]
    verdict: Verdict
    words: str


def judge(history: Sequence[Measurement]) -> Judged:
    """What the newest of some measurements amounts to, the others being those before it.

    *improving*: it is the best so far, and surely lower than the best before it; or than the last
    that was called so. Without the latter, many small gains would each be called nothing, however
    far they lead. *overfitting*: it is surely higher than the best before it or than the first, and
    so was the one before it. *flat*: neither. *Surely* is beyond the band of the difference that
    allows for how many there are to compare with.
    """
    *earlier, newest = history
    loss = band(list(newest.means.values()))
    if not earlier:
        words = f"{_loss_words(newest)} on {_count(len(newest.losses))}."
        return Judged(loss, None, None, newest.step, True, by_level(newest), "first", words)
    before = best_of(earlier)
    is_best, verdict = newest.loss < before.loss, _verdict(history)
    return Judged(
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
    """The measurement with the lowest loss; the first of equals."""
    return min(history, key=lambda one: one.loss)


def surely_best(history: Sequence[Measurement]) -> Measurement:
    """The last measurement that was called improving; the first if none was."""
    sure = best = history[0]
    for count, one in enumerate(history[1:], start=1):
        if one.loss >= best.loss:
            continue
        if any(_surely(one, older, count).is_below_zero for older in (best, sure)):
            sure = one
        best = one
    return sure


def without_gain(history: Sequence[Measurement]) -> int:
    """How many measurements in a row, up to the newest, were no better than the best before."""
    if not history:
        return 0
    best = best_of(history).step
    return sum(one.step > best for one in history)


def difference(newer: Measurement, older: Measurement, *, confidence: float = CONFIDENCE) -> Band:
    """The mean paired difference of two measurements over pictures, negative if the newer is lower.

    Of a single picture, the pairs are its noise levels: that says nothing about other pictures,
    but whether a change is larger than what differs between noises, which is better than nothing.
    """
    if len(newer.losses) > 1:
        was = older.means
        changes = [mean - was[name] for name, mean in newer.means.items()]
        return band(changes, confidence=confidence)
    ((name, losses),) = newer.losses.items()
    changes = [new - old for new, old in zip(losses, older.losses[name], strict=True)]
    return band(changes, confidence=confidence)


def band(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Band:
    """The mean of values, with the band of the mean that their spread allows."""
    if len(values) < 2:
        return Band(values[0], None)
    quantile = student_quantile(len(values) - 1, confidence)
    return Band(fmean(values), quantile * stdev(values) / math.sqrt(len(values)))


def by_level(measurement: Measurement) -> list[float]:
    """The mean over pictures and noises at each noise level, from little noise to much."""
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
    """The mean over the pictures of each concept. concepts: each picture's, by its name."""
    found: dict[str, list[float]] = {}
    for name, mean in measurement.means.items():
        found.setdefault(concepts[name], []).append(mean)
    return {concept: fmean(means) for concept, means in sorted(found.items())}


def by_concepts(
    history: Sequence[Measurement], concepts: Mapping[str, str]
) -> dict[str, dict[str, float | None]]:
    """What the newest measurement tells of each concept, as if there were no other pictures.

    By concept: "loss", and its differences "since_start" and "since_best", which is where this
    concept was best before; each with half of its 95 % band ("error", "since_start_error",
    "since_best_error"). None where there is nothing to compare with, or no band.
    """
    return {
        concept: _told(
            [
                _restricted(one, {name for name in concepts if concepts[name] == concept})
                for one in history
            ]
        )
        for concept in sorted({concepts[name] for name in history[-1].losses})
    }


def _restricted(measurement: Measurement, names: set[str]) -> Measurement:
    losses = {name: row for name, row in measurement.losses.items() if name in names}
    return Measurement(measurement.step, losses, measurement.noises)


def _told(history: Sequence[Measurement]) -> dict[str, float | None]:
    *earlier, newest = history
    loss = band(list(newest.means.values()))
    told: dict[str, float | None] = {"loss": loss.mean, "error": loss.error}
    for name, older in (("since_start", earlier[:1]), ("since_best", earlier)):
        change = difference(newest, best_of(older)) if older else None
        told[name] = change.mean if change else None
        told[f"{name}_error"] = change.error if change else None
    return told


@cache
def student_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """How many standard errors a band of a mean reaches to each side; degrees: from 1.

    confidence: below 1. Right to 1e-9 at 95 %, to 1e-6 of it up to 1 - 1e-6.
    Source: Abramowitz & Stegun 1964, 26.7.3 and 26.7.4, of which the inverse is found by bisection,
    and their expansion 26.7.5 where the sum would be long.
    """
    if degrees > _FEW_DEGREES:
        return _expanded_quantile(degrees, confidence)
    low, high = 0.0, 16.0
    while _share_within(high, degrees) < confidence:  # of one degree it grows like 1 / (1 - p)
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _share_within(middle, degrees) < confidence else (low, middle)
    return (low + high) / 2


def percent(share: float) -> str:
    """A share without its sign, with two digits of it: "0.31 %", "8.2 %", "45 %"."""
    hundredths = abs(share) * 100
    digits = 0 if hundredths >= 10 else 1 if hundredths >= 1 else 2
    return f"{hundredths:.{digits}f} %"


def _share_within(t: float, degrees: int) -> float:
    """The chance that Student's t is within ±t."""
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


def _surely(newer: Measurement, older: Measurement, count: int) -> Band:
    """The difference with the band that a verdict asks for. count: of those to compare with."""
    return difference(newer, older, confidence=1 - (1 - CONFIDENCE) / count)


def _verdict(history: Sequence[Measurement]) -> Verdict:
    """That of the newest; there is one before it at least."""
    *earlier, newest = history
    best, count = best_of(earlier), len(earlier)
    if newest.loss < best.loss:
        others = (best, surely_best(earlier))
        is_lower = any(_surely(newest, older, count).is_below_zero for older in others)
        return "improving" if is_lower else "flat"
    return "overfitting" if _is_worse(history) and _is_worse(earlier) else "flat"


def _is_worse(history: Sequence[Measurement]) -> bool:
    """Whether the newest is surely higher than the best before it, or than the first."""
    *earlier, newest = history
    others = (best_of(earlier), earlier[0]) if earlier else ()
    return any(_surely(newest, older, len(earlier)).is_above_zero for older in others)


def _words(verdict: Verdict, history: Sequence[Measurement]) -> str:
    """The verdict of the newest as sentences; there is one before it at least."""
    start, newest = history[0], history[-1]
    first = "the start" if start.step == 0 else f"that of step {start.step:,}"
    told = f"{_loss_words(newest)}, {compared(newest.loss, start.loss)} {first}"
    return f"{told}: {_judged_words(verdict, history)}{_caution(newest)}"


def _judged_words(verdict: Verdict, history: Sequence[Measurement]) -> str:
    *earlier, newest = history
    start, best = earlier[0], best_of(earlier)
    known = f"step {best.step:,}, the best ({loss_words(best.loss)})"
    is_above_start = _surely(newest, start, len(earlier)).is_above_zero
    if verdict == "improving":
        return "still improving."
    if verdict == "overfitting" and is_above_start:
        return f"worse than {when(start.step)}, so the learning rate may be too high."
    if verdict == "overfitting":
        return f"clearly worse than {known}, so it begins to memorize (overfitting)."
    if _is_worse(history):
        return (
            f"worse than {when(start.step) if is_above_start else known}; the next one will tell."
        )
    return _unsure_words(newest, best=best, start=start)


def _unsure_words(newest: Measurement, *, best: Measurement, start: Measurement) -> str:
    """Those for a change that may be chance. best: before the newest."""
    images = len(newest.losses)
    is_few = 1 < images < FEW_IMAGES  # of a single one a sentence of its own tells
    if newest.loss < best.loss:
        if is_few:
            return f"the best so far, but with {images} pictures that is not sure yet."
        return f"the best so far, but no sure change since {_since(best.step)}."
    few = f" with {images} pictures" if is_few else ""
    if best is start:
        return f"no sure change so far{few}."
    return f"no sure change{few} since step {best.step:,}, the best ({loss_words(best.loss)})."


def _since(step: int) -> str:
    return f"step {step:,}" if step else "the start"


def compared(loss: float, other: float) -> str:
    """How a loss stands to another one: "8.2 % below", "about the same as"."""
    change = loss / other - 1 if other else 0.0
    if abs(change) < _NO_CHANGE:
        return "about the same as"
    return f"{percent(change)} {'below' if change < 0 else 'above'}"


def when(step: int) -> str:
    """A step of the run as a time: "at step 300", "before training"."""
    return f"at step {step:,}" if step else "before training"


def loss_words(loss: float) -> str:
    """A loss in three digits: "0.112"."""
    return f"{loss:.3g}"


def _loss_words(measurement: Measurement) -> str:
    return f"Held-out loss {loss_words(measurement.loss)}"


def _caution(measurement: Measurement) -> str:
    if len(measurement.losses) > 1:
        return ""
    return " That is one picture, which says little about others."


def _count(images: int) -> str:
    return f"{images} picture{'s' if images > 1 else ''}"
