"""Panels of the figures of one run or several, in columns, for any part of their steps."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ui.charts.figure_kinds import KINDS, ChartData, Charted, FigureKind, Series
from ui.charts.panel import Frame, Line, Mark, Panel, padded_range
from ui.progress.curve import Point, thin
from ui.theme.palette import Role

_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 10, 22, 24
_GAP_X, _GAP_Y = 20, 14
_MIN_WIDTH, _MIN_HEIGHT, _MAX_COLUMNS = 290, 140, 3
_LOW_FRACTION, _HIGH_FRACTION = 0.01, 0.99
# Lines after these have their colors again, in dashes.
_ROLES: tuple[Role, ...] = ("accent", "validation", "good", "danger", "warning", "dim")
_DASHES: tuple[tuple[int, ...], ...] = ((), (7, 3), (2, 3), (9, 3, 2, 3))

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Look:
    """How figures are shown.

    Attributes:
        span: The first and the last step; None for all.
        strength: Of the smoothing, 0 to below 1.
        only: The title of the one panel that is shown; "" for all.
    """

    span: tuple[float, float] | None = None
    strength: float = 0.9
    is_log: bool = False
    only: str = ""


def columns_for(width: int, count: int, px: Callable[[float], int]) -> int:
    """Return in how many columns panels stand, so that their rows are about as full."""
    most = max(1, min(_MAX_COLUMNS, (width + px(_GAP_X)) // px(_MIN_WIDTH + _GAP_X)))
    rows = -(-count // most)
    return -(-count // max(1, rows))


def height_for(width: int, count: int, px: Callable[[float], int]) -> int:
    """Return the height that panels need at least."""
    rows = -(-count // columns_for(width, count, px)) if count else 1
    return rows * px(_MIN_HEIGHT + _GAP_Y) - px(_GAP_Y)


def figure_panels(
    data: ChartData, look: Look, box: tuple[int, int, int, int], px: Callable[[float], int]
) -> list[Panel]:
    """Return the panels that fill a box: left, top, width, height."""
    charted = data.only(look.only)
    if not charted:
        return []
    left, top, width, height = box
    columns = columns_for(width, len(charted), px)
    rows = -(-len(charted) // columns)
    pitch_x = (width + px(_GAP_X)) / columns
    pitch_y = (height + px(_GAP_Y)) / rows
    panels = []
    for index, one in enumerate(charted):
        row, column = divmod(index, columns)
        x, y = left + column * pitch_x, top + row * pitch_y
        right = x + pitch_x - px(_GAP_X) - px(_RIGHT)
        bottom = y + pitch_y - px(_GAP_Y) - px(_BOTTOM)
        frame = Frame(x + px(_LEFT), y + px(_TOP), right, bottom, *(look.span or data.span), 0, 1)
        panels.append(_panel(one, data, look, frame, x))
    return panels


def _panel(one: Charted, data: ChartData, look: Look, frame: Frame, left: float) -> Panel:
    kind, is_alone = one.kind, len(data.names) == 1
    is_log = look.is_log and kind.can_log
    lines: list[Line] = []
    noise: list[Line] = []
    ends: list[float] = []
    legend: list[tuple[str, Role]] = [(kind.title, "text")]
    for each in one.lines:
        points = _visible(each.series.points, frame, is_log=is_log)
        role, dash = _color(each.run, each.number, is_alone=is_alone)
        line = _line(kind, each.series, points, frame, "" if is_alone else data.names[each.run])
        line = replace(line, color=role, dash=dash, halves=line.halves if is_alone else ())
        if role == "accent":
            line = replace(line, band_color="selected")
        lines.append(line)
        ends += line.ends()
        if kind.is_noisy and not each.series.is_sparse and is_alone:
            whole = [(p.step, end) for p in points for end in (p.lowest, p.highest)]
            around = clip(whole, frame.first_step, frame.last_step)
            noise.append(Line(around, "plot", width=1))
            ends += _without_outliers([value for _, value in around])
        if each.series.name and is_alone:
            legend.append((each.series.name, role))
    marks = _marks(data, frame) if kind is KINDS[0] else []
    shapes = {mark.shape for mark in marks}
    legend += [(text, role) for shape, text, role in _MARKED if shape in shapes]
    low, high = _range(ends, is_log=is_log)
    return Panel(
        replace(frame, lowest=low, highest=high, is_log=is_log),
        (*noise, *lines),
        tuple(marks),
        legend=tuple(legend),
        legend_left=left,
        row_gap=34,
        edge=left,
    )


_MARKED: tuple[tuple[str, str, Role], ...] = (
    ("triangle", "∆ samples", "good"),
    ("tick", "| checkpoints", "dim"),
)


def role_of(index: int) -> Role:
    """Return the color of a run by its place among those compared."""
    return _ROLES[index % len(_ROLES)]


def dash_of(index: int) -> tuple[int, ...]:
    """Return the dash of a run by its place among those compared."""
    return _DASHES[index // len(_ROLES) % len(_DASHES)]


def clip(points: Sequence[tuple[float, float]], first: float, last: float) -> Points:
    """Return the part of a line between two steps; where it crosses them, a point is added."""
    start, end = bisect_left(points, (first, -math.inf)), bisect_right(points, (last, math.inf))
    found = list(points[start:end])
    if 0 < start < len(points) and (not found or found[0][0] > first):
        found = [_between(points[start - 1], points[start], first), *found]
    if 0 < end < len(points) and found and found[-1][0] < last:
        found = [*found, _between(points[end - 1], points[end], last)]
    return found


def _visible(points: Sequence[Point], frame: Frame, *, is_log: bool) -> list[Point]:
    """Return what is seen of a line and one point on either side, one in two columns at most."""
    start = max(0, bisect_left(points, frame.first_step, key=_step) - 1)
    end = bisect_right(points, frame.last_step, key=_step) + 1
    found = thin(list(points[start:end]), max(40, int(frame.right - frame.left) // 2))
    return [point for point in found if point.mean > 0] if is_log else found


def _step(point: Point) -> float:
    return point.step


def _line(kind: FigureKind, series: Series, points: list[Point], frame: Frame, run: str) -> Line:
    """Return what is seen of a line, whose values are read at the pointer."""
    means = [(point.step, point.mean) for point in points]
    shown = clip(means, frame.first_step, frame.last_step)
    halves = {point.step: point.highest - point.mean for point in points if series.is_sparse}
    name = "  ".join(text for text in (run, series.name) if text)
    return Line(
        shown,
        "accent",
        halves=[halves.get(int(step), 0.0) for step, _ in shown] if any(halves.values()) else (),
        dots="all" if series.is_sparse else "none",
        label=lambda index: f"{name}  {kind.text(shown[index][1])}".strip(),
    )


def _color(run: int, number: int, *, is_alone: bool) -> tuple[Role, tuple[int, ...]]:
    """Return color and dash of a line: of several runs each has a color, of one each line."""
    if is_alone:
        return role_of(number), ()
    return role_of(run), _DASHES[(number + run // len(_ROLES)) % len(_DASHES)]


def _range(values: list[float], *, is_log: bool) -> tuple[float, float]:
    """Return the lowest and the highest value of an axis."""
    if is_log:
        low, high = padded_range([math.log10(value) for value in values if value > 0], 0.05)
        return 10**low, 10**high
    low, high = padded_range(values, 0.06)
    return (max(0.0, low) if min(values, default=0) >= 0 else low), high


def _between(
    one: tuple[float, float], two: tuple[float, float], step: float
) -> tuple[float, float]:
    """Return the point of a straight line at a step."""
    fraction = (step - one[0]) / ((two[0] - one[0]) or 1.0)
    return step, one[1] + fraction * (two[1] - one[1])


def _marks(data: ChartData, frame: Frame) -> list[Mark]:
    first, last = frame.first_step, frame.last_step
    return [
        *(Mark(step, 0.0, "triangle") for step in data.samples if first <= step <= last),
        *(Mark(step, 0.0, "tick") for step in data.checkpoints if first <= step <= last),
    ]


def _without_outliers(values: list[float]) -> list[float]:
    """Leave out a few, which must not flatten the rest."""
    values = sorted(values)
    return values[int(_LOW_FRACTION * len(values)) : math.ceil(_HIGH_FRACTION * len(values))]
