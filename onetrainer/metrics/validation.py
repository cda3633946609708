"""The verdict on validation losses.

Since a chance result seldom repeats, only the second significant rise in a row is called
overfitting.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal

from onetrainer.metrics.bands import Measurement, best_of, difference, trends
from onetrainer.metrics.messages import validation_message
from onetrainer.run.events import Validated, Verdict

Weights = Literal["sampling", "without_ema"]
"""The weights that were measured: those that samples use, or those of the last step."""


def judge(
    history: Sequence[Measurement],
    *,
    concepts: Mapping[str, str] | None = None,
    weights: Weights = "sampling",
) -> Validated:
    """Return the verdict on the newest measurement of a history.

    *improving*: it is significantly the lowest so far. *overfitting*: it is significantly higher
    than the lowest before it or than the first, and so was the one before it. *flat*: neither.
    concepts: Each image's concept by its name.
    """
    newest, best = history[-1], best_of(history)
    found = trends(history)
    verdict: Verdict = "flat"
    if found[-1] == "first":
        verdict = "first"
    elif found[-1] == "lower":
        verdict = "improving"
    elif found[-2:] == ["higher", "higher"]:
        verdict = "overfitting"
    loss = newest.band
    by_concept = _by_concept(history, concepts or {})
    return Validated(
        step=newest.step,
        loss=loss.mean,
        error=loss.error or 0.0,
        images=len(newest.values),
        best_step=best.step,
        is_best=best is newest,
        verdict=verdict,
        message=validation_message(history, verdict, is_higher=found[-1] == "higher"),
        by_concept={name: values["loss"] or 0.0 for name, values in by_concept.items()},
        concepts=by_concept,
        by_level=by_level(newest),
        weights=weights,
        **_differences(history),
    )


def by_level(measurement: Measurement) -> list[float]:
    """Return the mean over images and noises at each noise level, from low to high noise."""
    rows, noises = list(measurement.values.values()), measurement.noises
    starts = range(0, len(rows[0]), noises)
    return [fmean(loss for row in rows for loss in row[start : start + noises]) for start in starts]


def _by_concept(
    history: Sequence[Measurement], concepts: Mapping[str, str]
) -> dict[str, dict[str, float | None]]:
    """Return the newest measurement of each concept, computed from its images alone."""
    values: dict[str, dict[str, float | None]] = {}
    for concept in sorted({concepts[name] for name in history[-1].values if concepts}):
        alone = [
            Measurement(
                each.step,
                {name: row for name, row in each.values.items() if concepts[name] == concept},
            )
            for each in history
        ]
        loss = alone[-1].band
        values[concept] = {"loss": loss.mean, "error": loss.error, **_differences(alone)}
    return values


def _differences(history: Sequence[Measurement]) -> dict[str, float | None]:
    """Return the differences to the first and to the best of the earlier ones, with their errors.

    None where there is nothing to compare with, or no band.
    """
    *earlier, newest = history
    values: dict[str, float | None] = {}
    for name, older in (("since_start", earlier[:1]), ("since_best", earlier)):
        change = difference(newest, best_of(older)) if older else None
        values[name] = change.mean if change else None
        values[f"{name}_error"] = change.error if change else None
    return values
