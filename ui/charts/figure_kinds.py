"""The figures of a run that have a chart: what their lines are, and how values are written."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ui.progress import figures
from ui.progress.curve import Curve, Point, smooth
from ui.progress.rewards import format_score
from ui.progress.run_state import RunState

_GIB = 2**30
_NEAR_START = 0.05


@dataclass(frozen=True)
class Series:
    """One line.

    Attributes:
        name: Of several lines of a chart; "" for the only one.
        points: Lowest and highest are the ends of the band where there is one.
        is_sparse: Whether each value was measured by itself, and has a dot and a band.
    """

    name: str
    points: Sequence[Point]
    is_sparse: bool = False


@dataclass(frozen=True)
class FigureKind:
    """What has a chart of its own.

    Attributes:
        series: Returns its lines for a run; those without points are left out.
        text: Formats a value.
        is_noisy: Whether the lines are smoothed.
        can_log: Whether a log scale makes sense.
    """

    title: str
    series: Callable[[RunState], list[Series]]
    text: Callable[[float], str]
    is_noisy: bool = False
    can_log: bool = False

    def lines(self, run: RunState) -> list[Series]:
        """Return the lines of a run that have points."""
        return [one for one in self.series(run) if one.points]


def _curve(name: str, curve: Curve, per: float = 1.0) -> Series:
    """Return a line of what every step reports, in units of `per`."""
    points = curve.points()
    if per != 1.0:
        points = [
            Point(one.step, one.lowest / per, one.highest / per, one.mean / per) for one in points
        ]
    return Series(name, points)


def _measured(name: str, values: Iterable[tuple[int, float, float]]) -> Series:
    """Return a line of values with half of their band: step, value, half."""
    found = []
    for step, value, half in values:
        if math.isfinite(value):
            half = half if math.isfinite(half) else 0.0
            found.append(Point(step, value - half, value + half, value))
    return Series(name, found, is_sparse=True)


def _validation(run: RunState) -> list[Series]:
    own, raw = run.validation.events, run.validation.without_ema
    return [
        _measured("with EMA" if raw else "", ((e.step, e.loss, e.error) for e in own)),
        _measured("without EMA", ((e.step, e.loss, 0.0) for e in raw)),
    ]


def _reward(run: RunState) -> list[Series]:
    evaluations = run.rewards.evaluations
    return [
        _curve("training" if evaluations else "", run.rewards.scores),
        _measured("validation", ((e.step, e.reward, e.error) for e in evaluations)),
    ]


def _memory(run: RunState) -> list[Series]:
    own, host = run.figures[figures.TENSORS], run.figures[figures.HOST]
    held = run.figures[figures.HELD]
    if not len(held):  # without a GPU both are the memory of the process
        return [_curve("RAM", host if len(host) else own, _GIB)]
    return [
        _curve("GPU, held", held, _GIB),
        _curve("GPU, used", own, _GIB),
        _curve("RAM", host, _GIB),
    ]


def _figure(name: str) -> Callable[[RunState], list[Series]]:
    return lambda run: [_curve("", run.figures[name])]


KINDS: tuple[FigureKind, ...] = (
    FigureKind(
        "Loss",
        lambda run: [_curve("", run.curve)],
        "{:.4g}".format,
        is_noisy=True,
        can_log=True,
    ),
    FigureKind("Validation loss", _validation, "{:.4g}".format, can_log=True),
    FigureKind("Reward", _reward, format_score, is_noisy=True),
    FigureKind(
        "Gradient norm",
        _figure(figures.GRADIENT_NORM),
        "{:.3g}".format,
        is_noisy=True,
        can_log=True,
    ),
    FigureKind(
        "Learning rate",
        lambda run: [_curve(name, curve) for name, curve in run.figures.rates()],
        "{:.3g}".format,
        can_log=True,
    ),
    FigureKind("Memory in GB", _memory, "{:.2f} GB".format),
    FigureKind("Steps per second", _figure(figures.SPEED), "{:.3g}".format),
    FigureKind("Images per second", _figure(figures.IMAGES), "{:.3g}".format),
    FigureKind("GPU temperature in °C", _figure(figures.TEMPERATURE), "{:.0f} °C".format),
    FigureKind("GPU power in W", _figure(figures.POWER), "{:.0f} W".format),
)

Runs = Sequence[tuple[str, RunState]]
"""Runs with their names."""


@dataclass(frozen=True)
class ChartedLine:
    """A line of one of the runs. run, number: Which run, and which of its lines."""

    run: int
    number: int
    series: Series


@dataclass(frozen=True)
class Charted:
    """A figure that any of the runs has."""

    kind: FigureKind
    lines: tuple[ChartedLine, ...]


@dataclass(frozen=True)
class ChartData:
    """All that the charts of some runs show, so that seeing another part of it is fast.

    Attributes:
        samples, checkpoints: Steps of a single run.
        span: The first and the last step.
    """

    names: tuple[str, ...] = ()
    charted: tuple[Charted, ...] = ()
    samples: tuple[int, ...] = ()
    checkpoints: tuple[int, ...] = ()
    span: tuple[float, float] = (0, 2)

    def only(self, title: str) -> tuple[Charted, ...]:
        """Return the figure with a title alone; all if there is none."""
        return tuple(one for one in self.charted if one.kind.title == title) or self.charted


def chart_data(runs: Runs, strength: float) -> ChartData:
    """Return what the charts of runs show. strength: Of the smoothing, 0 to below 1."""
    charted = []
    for kind in KINDS:
        lines = [
            ChartedLine(at, number, _smoothed(series, strength if kind.is_noisy else 0.0))
            for at, (_, run) in enumerate(runs)
            for number, series in enumerate(kind.lines(run))
        ]
        if lines:
            charted.append(Charted(kind, tuple(lines)))
    every = [line.series.points for one in charted for line in one.lines]
    first = min((points[0].step for points in every), default=0)
    last = max((points[-1].step for points in every), default=0)
    # A run that began at 1 begins at 0; one that was resumed from later does not.
    span = (0 if first <= _NEAR_START * last else first), max(2, last)
    names = tuple(name for name, _ in runs)
    if len(runs) != 1:
        return ChartData(names, tuple(charted), span=span)
    samples = {sample.step for sample in runs[0][1].samples}
    saved = {checkpoint.step for checkpoint in runs[0][1].checkpoints}
    return ChartData(names, tuple(charted), tuple(sorted(samples)), tuple(sorted(saved)), span)


def _smoothed(series: Series, strength: float) -> Series:
    """Return a line whose means are smoothed; that of the whole run, whatever is seen of it."""
    if series.is_sparse or not strength:
        return series
    means = smooth(list(series.points), strength)
    points = [
        Point(point.step, point.lowest, point.highest, mean)
        for point, mean in zip(series.points, means, strict=True)
    ]
    return Series(series.name, points)
