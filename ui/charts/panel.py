"""Lines with bands, marks and axes of values by step."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ui.charts.pen import Pen
from ui.progress.curve import ticks
from ui.theme.palette import Role

DOT = 3
# Dots closer together than this overlap and are left out.
_DOT_GAP = 7
_TICK = 6
# A log scale that spans less has ordinary round values.
_DECADES = 30.0
_MOST_DIGITS = 6  # after the point; more do not fit beside an axis
_COLUMN_GAP = 90
# Between a label and the frame, and between a label and the edge of the chart.
_BESIDE, _EDGE = 8, 2
# How far a legend may reach over the frame.
_RIGHT = 16


@dataclass(frozen=True)
class Frame:
    """Plot area in pixels, with the steps and values at its edges."""

    left: float
    top: float
    right: float
    bottom: float
    first_step: float
    last_step: float
    lowest: float
    highest: float
    is_log: bool = False

    def x(self, step: float) -> float:
        """Return the x coordinate of a step."""
        span = max(1.0, self.last_step - self.first_step)
        return self.left + (step - self.first_step) / span * (self.right - self.left)

    def y(self, value: float) -> float:
        """Return the y coordinate of a value, clamped to the plot area."""
        low, high = self._scaled(self.lowest), self._scaled(self.highest)
        fraction = (self._scaled(value) - low) / ((high - low) or 1.0)
        return self.bottom - min(1.0, max(0.0, fraction)) * (self.bottom - self.top)

    def ticks(self, most: int) -> tuple[list[float], list[str]]:
        """Return about `most` round values between the edges, and their labels."""
        if self.is_log and self.highest > _DECADES * self.lowest:
            ends = self._scaled(self.lowest), self._scaled(self.highest)
            values = [10**power for power in ticks(*ends, most)]
            return values, [f"{value:.3g}" for value in values]
        values = ticks(self.lowest, self.highest, most)
        return values, tick_labels(values)

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.is_log else value


@dataclass(frozen=True)
class Line:
    """Values by step.

    Attributes:
        halves: Half the height of the band at each point; empty for none.
        dots: The points that are marked; a single point always is, unless the line is thin.
        label: Returns the text at the pointer by the index of a point; None for none.
        reach: Pixels from a point within which its text is shown; 0 for any.
    """

    points: Sequence[tuple[float, float]]
    color: Role
    width: int = 2
    dash: tuple[int, ...] = ()
    halves: Sequence[float] = ()
    band_color: Role = "validation_band"
    dots: Literal["none", "all", "last"] = "none"
    label: Callable[[int], str] | None = None
    reach: int = 0

    def ends(self) -> Iterator[float]:
        """Yield the ends of the band, or the values."""
        for index, (_, value) in enumerate(self.points):
            half = self.halves[index] if self.halves else 0.0
            yield from (value - half, value + half)

    def nearest(self, frame: Frame, column: float) -> int:
        """Return the index of the point closest to a column."""
        distances = [abs(frame.x(step) - column) for step, _ in self.points]
        return distances.index(min(distances))


@dataclass(frozen=True)
class Mark:
    """A point with a meaning of its own.

    A triangle stands on the lower edge, a tick hangs from the upper one.
    """

    step: float
    value: float
    shape: Literal["ring", "diamond", "triangle", "tick"]


@dataclass(frozen=True)
class Panel:
    """Everything within a frame.

    Attributes:
        base: Value of a horizontal line; None for none.
        legend: Texts with their colors, above the frame from `legend_left` on.
        row_gap: Pixels between grid lines, at least.
        edge: The x coordinate from which there is room for the values of grid lines.
    """

    frame: Frame
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()
    base: float | None = None
    legend: tuple[tuple[str, Role], ...] = ()
    legend_left: float = 0.0
    row_gap: int = 24
    edge: float = 0.0


def padded_range(values: Sequence[float], fraction: float) -> tuple[float, float]:
    """Return the lowest and highest finite value, with a fraction of their distance around them."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    pad = (high - low) * fraction or abs(high) * 0.05 or 1e-6
    return low - pad, high + pad


def tick_labels(values: list[float]) -> list[str]:
    """Format axis values with just enough digits to differ: 0.138, 0.140, 2e-09."""
    if len(values) < 2:
        return [f"{value:.4g}" for value in values]
    digits = max(0, -math.floor(math.log10(values[1] - values[0]) + 1e-9))
    if digits > _MOST_DIGITS:
        return [f"{value:.3g}" for value in values]
    return [f"{value:.{digits}f}" for value in values]


def draw_panel(pen: Pen, panel: Panel) -> None:
    """Draw a panel with its grid and legend, without the steps below it."""
    frame, px = panel.frame, pen.px
    for value, label in zip(*_rows(pen, panel), strict=True):
        y = frame.y(value)
        pen.line((frame.left, y, frame.right, y), "line")
        pen.text(frame.left - px(_BESIDE), y, label, "dim", anchor="e")
    draw_lines(pen, frame, panel.lines, panel.base)
    for mark in panel.marks:
        _draw_mark(pen, frame, mark)
    x = panel.legend_left
    for text, role in panel.legend:
        end = x + pen.measure(text)
        if end > min(pen.width, frame.right + px(_RIGHT)):
            break
        pen.text(x, frame.top - px(6), text, role, anchor="sw")
        x = end + px(12)


def with_room_for_labels(pen: Pen, panels: Sequence[Panel]) -> list[Panel]:
    """Return panels of one left edge that leave enough room for the widest value next to it."""
    labels = [label for panel in panels for label in _rows(pen, panel)[1]]
    widest = max(map(pen.measure, labels), default=0)
    found = []
    for panel in panels:
        frame = panel.frame
        shift = max(0, widest + pen.px(_BESIDE + _EDGE) - round(frame.left - panel.edge))
        above = shift if panel.legend_left == frame.left else 0
        moved = replace(frame, left=frame.left + shift)
        found.append(replace(panel, frame=moved, legend_left=panel.legend_left + above))
    return found


def _rows(pen: Pen, panel: Panel) -> tuple[list[float], list[str]]:
    """Return the values of a panel's grid lines and their labels."""
    height = panel.frame.bottom - panel.frame.top
    # A low chart would otherwise have a single grid line.
    return panel.frame.ticks(max(3, int(height / pen.px(panel.row_gap))))


def draw_steps(pen: Pen, frame: Frame) -> None:
    """Write the steps below a frame."""
    px = pen.px
    most = max(2, int((frame.right - frame.left) / px(_COLUMN_GAP)))
    for step in ticks(frame.first_step, frame.last_step, most):
        if step == int(step):
            label = f"{int(step):,}"
            x = min(frame.x(step), pen.width - pen.measure(label) / 2 - px(_EDGE))
            pen.text(x, frame.bottom + px(6), label, "dim", anchor="n")


def draw_lines(pen: Pen, frame: Frame, lines: Sequence[Line], base: float | None = None) -> None:
    """Draw bands, then the line of the base, then lines."""
    for line in lines:
        if line.halves and line.points:
            _draw_band(pen, frame, line)
    if base is not None:
        ends = (frame.left, frame.y(base), frame.right, frame.y(base))
        pen.line(ends, "border", dash=(2, 4))
    for line in lines:
        _draw_line(pen, frame, line)


def _draw_band(pen: Pen, frame: Frame, line: Line) -> None:
    upper, lower = [], []
    for (step, value), half in zip(line.points, line.halves, strict=True):
        top, bottom = frame.y(value + half), frame.y(value - half)
        thin = 0.0 if bottom - top >= 1 else 0.5  # visible in any case
        upper.append((frame.x(step), top - thin))
        lower.append((frame.x(step), bottom + thin))
    if len(upper) == 1:
        (x, top), (_, bottom), half = upper[0], lower[0], pen.px(DOT)
        upper, lower = [(x - half, top), (x + half, top)], [(x - half, bottom), (x + half, bottom)]
    pen.area([*upper, *reversed(lower)], line.band_color)


def _draw_line(pen: Pen, frame: Frame, line: Line) -> None:
    px, points = pen.px, [(frame.x(step), frame.y(value)) for step, value in line.points]
    is_thin = line.width == 1
    if len(points) > 1:
        pen.path(points, line.color, width=1 if is_thin else px(line.width), dash=line.dash)
    is_dense = len(points) > 1 and points[-1][0] - points[0][0] < px(_DOT_GAP) * len(points)
    is_all = line.dots == "all" and not is_dense
    marked = points if is_all or (len(points) == 1 and not is_thin) else []
    for x, y in points[-1:] if line.dots == "last" else marked:
        pen.dot(x, y, px(DOT), line.color)


def _draw_mark(pen: Pen, frame: Frame, mark: Mark) -> None:
    x, y, px = frame.x(mark.step), frame.y(mark.value), pen.px
    foot, size = frame.bottom, px(DOT)
    match mark.shape:
        case "ring":
            pen.ring(x, y, px(DOT + 3), "good", width=px(2))
        case "diamond":
            size = px(DOT + 2)
            corners = [(x - size, y), (x, y - size), (x + size, y), (x, y + size)]
            pen.area(corners, "warning", outline="card")
        case "triangle":
            pen.area([(x - size, foot), (x, foot - 2 * size), (x + size, foot)], "good")
        case "tick":
            pen.line((x, frame.top, x, frame.top + px(_TICK)), "dim")
