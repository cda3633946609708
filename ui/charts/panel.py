"""Lines with bands, marks and axes of values by step."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ui.progress.curve import ticks
from ui.theme.palette import Role
from ui.theme.theme import SMALL
from ui.widgets.drawing import Drawing

DOT = 3
# Dots closer together than this overlap and are left out.
_DOT_GAP = 7
_MOST_DIGITS = 6  # after the point; more do not fit beside an axis
_COLUMN_GAP = 90
# Between a label and the frame, and between a label and the edge of the chart.
_BESIDE, _EDGE = 8, 2


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
        if self.is_log:
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
    """A point with a meaning of its own. A triangle stands on the lower edge."""

    step: float
    value: float
    shape: Literal["ring", "diamond", "triangle"]


@dataclass(frozen=True)
class Panel:
    """Everything within a frame.

    Attributes:
        base: Value of a horizontal line; None for none.
        legend: Texts with their colors, above the frame from `legend_left` on.
        row_gap: Pixels between grid lines, at least.
    """

    frame: Frame
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()
    base: float | None = None
    legend: tuple[tuple[str, Role], ...] = ()
    legend_left: float = 0.0
    row_gap: int = 24


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


def draw_panel(drawing: Drawing, panel: Panel) -> None:
    """Draw a panel with its grid and legend, without the steps below it."""
    frame, px = panel.frame, drawing.widgets.px
    for value, label in zip(*_rows(drawing, panel), strict=True):
        y = frame.y(value)
        drawing.line((frame.left, y, frame.right, y), "line")
        drawing.text(frame.left - px(_BESIDE), y, label, "dim", anchor="e")
    draw_lines(drawing, frame, panel.lines, panel.base)
    for mark in panel.marks:
        _draw_mark(drawing, frame, mark)
    x = panel.legend_left
    for text, role in panel.legend:
        item = drawing.text(x, frame.top - px(6), text, role, anchor="sw")
        x = drawing.canvas.bbox(item)[2] + px(12)
        if x - px(12) > drawing.width:
            drawing.canvas.delete(item)


def with_room_for_labels(drawing: Drawing, panels: Sequence[Panel]) -> list[Panel]:
    """Return panels of one left edge that leave enough room for the widest value next to it."""
    widgets = drawing.widgets
    labels = [label for panel in panels for label in _rows(drawing, panel)[1]]
    widest = max((widgets.theme.measure(label, SMALL) for label in labels), default=0)
    found = []
    for panel in panels:
        frame = panel.frame
        shift = max(0, widest + widgets.px(_BESIDE + _EDGE) - frame.left)
        above = shift if panel.legend_left == frame.left else 0
        moved = replace(frame, left=frame.left + shift)
        found.append(replace(panel, frame=moved, legend_left=panel.legend_left + above))
    return found


def _rows(drawing: Drawing, panel: Panel) -> tuple[list[float], list[str]]:
    """Return the values of a panel's grid lines and their labels."""
    height = panel.frame.bottom - panel.frame.top
    # A low chart would otherwise have a single grid line.
    return panel.frame.ticks(max(3, int(height / drawing.widgets.px(panel.row_gap))))


def draw_steps(drawing: Drawing, frame: Frame) -> None:
    """Write the steps below a frame."""
    px = drawing.widgets.px
    most = max(2, int((frame.right - frame.left) / px(_COLUMN_GAP)))
    for step in ticks(frame.first_step, frame.last_step, most):
        if step == int(step):
            label = f"{int(step):,}"
            half = drawing.widgets.theme.measure(label, SMALL) / 2
            x = min(frame.x(step), drawing.width - half - px(_EDGE))
            drawing.text(x, frame.bottom + px(6), label, "dim", anchor="n")


def draw_lines(
    drawing: Drawing, frame: Frame, lines: Sequence[Line], base: float | None = None
) -> None:
    """Draw bands, then the line of the base, then lines."""
    for line in lines:
        if line.halves and line.points:
            _draw_band(drawing, frame, line)
    if base is not None:
        ends = (frame.left, frame.y(base), frame.right, frame.y(base))
        drawing.line(ends, "border", dash=(2, 4))
    for line in lines:
        _draw_line(drawing, frame, line)


def _draw_band(drawing: Drawing, frame: Frame, line: Line) -> None:
    upper, lower = [], []
    for (step, value), half in zip(line.points, line.halves, strict=True):
        top, bottom = frame.y(value + half), frame.y(value - half)
        thin = 0.0 if bottom - top >= 1 else 0.5  # visible in any case
        upper.append((frame.x(step), top - thin))
        lower.append((frame.x(step), bottom + thin))
    if len(upper) > 1:
        color = drawing.widgets.theme.palette[line.band_color]
        drawing.canvas.create_polygon(*upper, *reversed(lower), fill=color, outline="")
    else:
        (x, top), (_, bottom), half = upper[0], lower[0], drawing.widgets.px(DOT)
        drawing.box(x - half, top, x + half, bottom, line.band_color)


def _draw_line(drawing: Drawing, frame: Frame, line: Line) -> None:
    px, points = (
        drawing.widgets.px,
        [(frame.x(step), frame.y(value)) for step, value in line.points],
    )
    is_thin = line.width == 1
    if len(points) > 1:
        drawing.canvas.create_line(
            points,
            fill=drawing.widgets.theme.palette[line.color],
            width=1 if is_thin else px(line.width),
            joinstyle="bevel" if is_thin else "round",
            dash=line.dash,
        )
    is_dense = len(points) > 1 and points[-1][0] - points[0][0] < px(_DOT_GAP) * len(points)
    is_all = line.dots == "all" and not is_dense
    marked = points if is_all or (len(points) == 1 and not is_thin) else []
    for x, y in points[-1:] if line.dots == "last" else marked:
        drawing.dot(x, y, px(DOT), line.color)


def _draw_mark(drawing: Drawing, frame: Frame, mark: Mark) -> None:
    x, y, px = frame.x(mark.step), frame.y(mark.value), drawing.widgets.px
    canvas, palette = drawing.canvas, drawing.widgets.theme.palette
    match mark.shape:
        case "ring":
            size = px(DOT + 3)
            box = (x - size, y - size, x + size, y + size)
            canvas.create_oval(box, outline=palette["good"], width=px(2))
        case "diamond":
            size = px(DOT + 2)
            corners = (x - size, y, x, y - size, x + size, y, x, y + size)
            canvas.create_polygon(corners, fill=palette["warning"], outline=palette["card"])
        case "triangle":
            size, foot = px(DOT), frame.bottom
            triangle = (x - size, foot, x, foot - 2 * size, x + size, foot)
            canvas.create_polygon(triangle, fill=palette["good"])
