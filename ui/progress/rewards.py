"""Rewards and evaluations of a run, as rows, columns and trends for the window."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite, nan
from typing import Any, Literal

from onetrainer.metrics.messages import MAX_DRIFT
from onetrainer.run.events import Evaluated, Rewarded, Sample
from ui.progress.curve import Curve
from ui.progress.history import best_of, with_event
from ui.progress.samples import SampleBook
from ui.theme.palette import Role

VERDICTS: dict[str, tuple[str, Role]] = {
    "first": ("first evaluation", "dim"),
    "improving": ("improving", "good"),
    "flat": ("no significant improvement lately", "dim"),
    "hacking": ("possible reward hacking", "warning"),
}
_DRIFT = ("diversity", "variety", "contrast", "saturation", "distance")
_MAX_LINES = 3
_LARGE, _MIDDLE, _SMALL = 1000, 10, 0.001

TrendKind = Literal["trained", "monitored", "drift"]


@dataclass(frozen=True)
class TrendPoint:
    """One value of a trend. error: half of its 95 % band; 0 if unknown."""

    step: int
    value: float
    error: float = 0.0


@dataclass(frozen=True)
class Trend:
    """One quantity that every evaluation measures.

    Attributes:
        base: Value before training; None if it is meaningless.
        is_fraction: Whether the values are fractions of 1 rather than scores.
        figure: Current value and its change, as text.
    """

    name: str
    kind: TrendKind
    points: tuple[TrendPoint, ...]
    base: float | None
    is_fraction: bool
    figure: str
    tone: Role = "text"

    def text_at(self, index: int) -> str:
        """Return the text of one value: "step 20: 0.412 ± 0.021"."""
        point = self.points[index]
        value = (
            format_percent(point.value) if self.is_fraction else with_band(point.value, point.error)
        )
        return f"step {point.step:,}: {value}"


# Path relative to the run folder, and names with scores.
GridImage = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class GridColumn:
    """Images of one evaluation, one per row; None where it lacks the row."""

    title: str
    step: int
    cells: tuple[GridImage | None, ...]


@dataclass
class Rewards:
    """Scores of every step in bounded memory, and all evaluations.

    Attributes:
        scores: Mean score of each step.
        spreads: Spread of the scores of each step, for the same steps.
        step: The last step.
        evaluations: Evaluations by step.
        count: Number of events so far.
    """

    scores: Curve = field(default_factory=Curve)
    spreads: Curve = field(default_factory=Curve)
    step: Rewarded | None = None
    evaluations: list[Evaluated] = field(default_factory=list)
    count: int = 0

    def add_step(self, event: Rewarded) -> None:
        """Add the scores of a step; a reward that is not finite leaves a gap."""
        self.count += 1
        self.step = event
        if isfinite(event.reward):
            self.scores.append(event.step, event.reward)
            self.spreads.append(event.step, event.spread if isfinite(event.spread) else 0.0)

    def add_evaluation(self, event: Evaluated) -> None:
        """Add an evaluation, replacing one of the same step."""
        self.count += 1
        self.evaluations = with_event(self.evaluations, event)

    @property
    def newest(self) -> Evaluated | None:
        """The last evaluation; None before the first."""
        return self.evaluations[-1] if self.evaluations else None

    @property
    def best(self) -> Evaluated | None:
        """The evaluation that the guard considers best; None before the first."""
        return best_of(self.evaluations)

    def at(self, step: int) -> Evaluated | None:
        """Return the evaluation of a step; None if there is none."""
        return next((event for event in self.evaluations if event.step == step), None)


def grid_rows(rewards: Rewards) -> list[tuple[str, int]]:
    """Return the prompt and the seed of each row of the grid."""
    newest = rewards.newest
    return [_prompt_and_seed(image) for image in newest.images] if newest else []


def grid_columns(rewards: Rewards, step: int | None = None) -> list[GridColumn]:
    """Return base, best and newest evaluation as columns; a single evaluation as one column.

    Args:
        rewards: The evaluations.
        step: Evaluation to show in place of the newest.
    """
    newest, best = rewards.newest, rewards.best
    if newest is None:
        return []
    columns = [("base", rewards.evaluations[0])]
    if len(rewards.evaluations) > 1:
        now = (rewards.at(step) if step is not None else None) or newest
        columns += [(f"best · step {best.step:,}", best)] if best else []
        columns.append((f"{'now · ' if now.step == newest.step else ''}step {now.step:,}", now))
    return [_column(title, evaluation, len(newest.images)) for title, evaluation in columns]


def sample_book(rewards: Rewards) -> SampleBook:
    """Return the images of the evaluations for the viewer; each row of the grid is a prompt."""
    return SampleBook.of(
        Sample(evaluation.step, row, _path(image), *_prompt_and_seed(image))
        for evaluation in rewards.evaluations
        for row, image in enumerate(evaluation.images)
    )


def image_scores_text(rewards: Rewards, row: int, step: int) -> str:
    """Return all rewards of one image on a line."""
    evaluation = rewards.at(step)
    if evaluation is None or row >= len(evaluation.images):
        return ""
    found = _lines(evaluation, evaluation.images[row])
    return "   ".join(f"{name} {figure}" for name, figure in found)


def reward_trends(rewards: Rewards, *, min_diversity: float) -> list[Trend]:
    """Return the trends: trained rewards, monitored rewards, then the drift.

    Args:
        rewards: The evaluations.
        min_diversity: Fraction of the base's diversity below which the guard sees a collapse.
    """
    newest = rewards.newest
    if newest is None:
        return []
    names = sorted(newest.rewards, key=lambda name: not newest.rewards[name].get("trained"))
    scores = (_reward_trend(rewards, name) for name in names)
    found = [trend for trend in scores if trend.points]
    for name in _DRIFT:
        points = tuple(
            TrendPoint(event.step, event.drift[name])
            for event in rewards.evaluations
            if isfinite(event.drift.get(name, nan))
        )
        if points:
            now = points[-1].value
            tone: Role = "warning" if _is_suspicious(name, now, min_diversity) else "text"
            base = None if name == "distance" else 1.0
            found.append(Trend(name, "drift", points, base, True, format_percent(now), tone))
    return found


def with_band(value: float, error: float) -> str:
    """Format a score with half of its 95 % band: "0.412 ± 0.021"."""
    if not error or not isfinite(error):
        return format_score(value)
    return f"{format_score(value)} ± {error:.2g}"


def format_score(value: float) -> str:
    """Format a score with as many digits as distinguish images: "0.412", "21.53"."""
    size = abs(value)
    if size >= _LARGE:
        return f"{value:,.0f}"
    if size >= _MIDDLE:
        return f"{value:.2f}"
    return f"{value:.3f}" if size >= _SMALL or value == 0 else f"{value:.1g}"


def format_percent(fraction: float) -> str:
    """Format a fraction as a percentage: "62 %", and "0.4 %" if it is small."""
    digits = 0 if fraction >= 0.0995 or fraction == 0 else 1
    return f"{100 * fraction:.{digits}f} %"


def _reward_trend(rewards: Rewards, name: str) -> Trend:
    points = tuple(
        TrendPoint(event.step, mean, _number(values, "error"))
        for event in rewards.evaluations
        if (values := event.rewards.get(name))
        and isfinite(mean := _number(values, "mean", unknown=nan))
    )
    newest = rewards.evaluations[-1].rewards[name]
    kind: TrendKind = "trained" if newest.get("trained") else "monitored"
    mean = _number(newest, "mean", unknown=nan)
    figure = format_score(mean)
    since, band = newest.get("since_base"), _number(newest, "since_base_error")
    tone: Role = "text"
    if since is not None:
        figure += f"  {'+' if since > 0 else '−'}{abs(since):.2g}"
        # A reward with a negative weight improves when it falls.
        gain = since * (-1 if (newest.get("weight") or 0.0) < 0 else 1)
        if abs(since) > band > 0:
            tone = "good" if gain > 0 else "warning"
    base = points[0].value if points else None
    return Trend(name, kind, points, base, False, figure, tone)


def _is_suspicious(name: str, fraction: float, min_diversity: float) -> bool:
    if name in ("diversity", "variety"):
        return fraction < min_diversity
    return name != "distance" and abs(fraction - 1) > MAX_DRIFT


def _column(title: str, evaluation: Evaluated, rows: int) -> GridColumn:
    cells = [
        (_path(image), _lines(evaluation, image)[:_MAX_LINES]) for image in evaluation.images[:rows]
    ]
    return GridColumn(title, evaluation.step, (*cells, *[None] * (rows - len(cells))))


def _lines(evaluation: Evaluated, image: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the rewards of an image, the trained ones first, after the sum of several."""
    scores: Mapping[str, float] = image.get("rewards", {})
    trained = [name for name, values in evaluation.rewards.items() if values.get("trained")]
    others = [name for name in scores if name and name not in trained]
    names = [*(name for name in trained if name in scores), *others]
    found = [(name, format_score(scores[name])) for name in names]
    if "" in scores and len(trained) > 1:
        found.insert(0, ("together", format_score(scores[""])))
    return tuple(found)


def _path(image: Mapping[str, Any]) -> str:
    return str(image.get("path", ""))


def _prompt_and_seed(image: Mapping[str, Any]) -> tuple[str, int]:
    return str(image.get("prompt", "")), int(image.get("seed", 0))


def _number(values: Mapping[str, float | None], name: str, *, unknown: float = 0.0) -> float:
    """Return a value of an evaluation, or `unknown` if it is none or no number."""
    value = values.get(name)
    return unknown if value is None or not isfinite(value) else value
