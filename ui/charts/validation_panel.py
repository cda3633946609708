"""Panel of the validation loss below the training loss: points, 95 % band and best step."""

import math
import tkinter as tk

from onetrainer.run.events import Validated
from ui.charts.axes import Frame
from ui.progress.curve import ticks
from ui.progress.validation import Validation, half_band, with_band
from ui.widgets.widgets import Kit

_DOT, _NEAREST = 3, 18
_PAD_FRACTION = 0.12
_TICK_GAP = 24
# Dots closer together than this overlap and are left out.
_DOT_GAP = 7


def value_range(validation: Validation) -> tuple[float, float]:
    """Return the lowest and highest value to show, with some padding."""
    ends = [one.loss for one in validation.without_ema]
    for one in validation.exported:
        ends += [one.loss - half_band(one), one.loss + half_band(one)]
    finite = [end for end in ends if math.isfinite(end)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    pad = (high - low) * _PAD_FRACTION or abs(high) * 0.05 or 1e-6
    return low - pad, high + pad


def tick_labels(values: list[float]) -> list[str]:
    """Format axis values with just enough digits to differ: 0.138, 0.140."""
    if len(values) < 2:
        return [f"{value:.4g}" for value in values]
    step = values[1] - values[0]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return [f"{value:.{digits}f}" for value in values]


class ValidationPanel:
    """Panel on the canvas of the training loss, with the same steps."""

    def __init__(self, kit: Kit, canvas: tk.Canvas) -> None:
        self._kit = kit
        self._canvas = canvas

    def draw(self, validation: Validation, frame: Frame) -> None:
        """Draw the panel within a frame."""
        self._draw_grid(frame)
        validations = [one for one in validation.exported if math.isfinite(one.loss)]
        self._draw_band(validations, frame)
        self._draw_without_ema(validation.without_ema, frame)
        self._draw_line(validations, frame)
        self._draw_best(validation, frame)
        self._draw_legend(validation, frame)

    def draw_pointer(self, validation: Validation, frame: Frame, column: float) -> str:
        """Mark the validation near a column and return its values; "" if none is near."""
        px = self._kit.px
        near = [
            one for one in validation.exported if abs(frame.x(one.step) - column) <= px(_NEAREST)
        ]
        if not near:
            return ""
        one = min(near, key=lambda one: abs(frame.x(one.step) - column))
        x, y, size = frame.x(one.step), frame.y(one.loss), px(_DOT + 2)
        color = self._kit.theme.palette.validation
        self._canvas.create_oval(
            x - size, y - size, x + size, y + size, fill=color, outline="", tags="pointer"
        )
        return f"step {one.step:,}   validation {with_band(one.loss, one.error)}"

    def _draw_grid(self, frame: Frame) -> None:
        palette, px = self._kit.theme.palette, self._kit.px
        rows = max(2, int((frame.bottom - frame.top) / px(_TICK_GAP)))
        values = ticks(frame.lowest, frame.highest, rows)
        for value, label in zip(values, tick_labels(values), strict=True):
            y = frame.y(value)
            self._canvas.create_line(frame.left, y, frame.right, y, fill=palette.line)
            self._canvas.create_text(
                frame.left - px(8),
                y,
                text=label,
                anchor="e",
                font="OneTrainerSmall",
                fill=palette.dim,
            )

    def _draw_band(self, validations: list[Validated], frame: Frame) -> None:
        color = self._kit.theme.palette.validation_band
        if len(validations) == 1:
            x, half = frame.x(validations[0].step), self._kit.px(_DOT)
            top, bottom = _ends(validations[0], frame)
            self._canvas.create_rectangle(x - half, top, x + half, bottom, fill=color, outline="")
            return
        upper = [(frame.x(one.step), _ends(one, frame)[0]) for one in validations]
        lower = [(frame.x(one.step), _ends(one, frame)[1]) for one in reversed(validations)]
        if upper:
            self._canvas.create_polygon(*upper, *lower, fill=color, outline="")

    def _draw_line(self, validations: list[Validated], frame: Frame) -> None:
        color, px = self._kit.theme.palette.validation, self._kit.px
        points = [(frame.x(one.step), frame.y(one.loss)) for one in validations]
        if len(points) > 1:
            self._canvas.create_line(*points, fill=color, width=px(2), joinstyle="round")
        if len(points) > 1 and (points[-1][0] - points[0][0]) / len(points) < px(_DOT_GAP):
            return
        size = px(_DOT)
        for x, y in points:
            self._canvas.create_oval(x - size, y - size, x + size, y + size, fill=color, outline="")

    def _draw_without_ema(self, last: list[Validated], frame: Frame) -> None:
        points = [(frame.x(one.step), frame.y(one.loss)) for one in last if math.isfinite(one.loss)]
        if len(points) > 1:
            self._canvas.create_line(
                *points, fill=self._kit.theme.palette.dim, width=self._kit.px(1), dash=(4, 3)
            )

    def _draw_best(self, validation: Validation, frame: Frame) -> None:
        """Draw a ring around the lowest loss."""
        best = validation.best
        if best is None or len(validation.exported) < 2:
            return
        palette, px = self._kit.theme.palette, self._kit.px
        x, y, size = frame.x(best.step), frame.y(best.loss), px(_DOT + 3)
        self._canvas.create_oval(
            x - size, y - size, x + size, y + size, outline=palette.good, width=px(2)
        )

    def _draw_legend(self, validation: Validation, frame: Frame) -> None:
        palette, px = self._kit.theme.palette, self._kit.px
        parts = [("● validation, 95 % band", palette.validation)]
        if len(validation.exported) > 1:
            parts.append(("○ lowest", palette.good))
        if validation.without_ema:
            parts.append(("┅ without EMA", palette.dim))
        x: float = frame.left
        for label, color in parts:
            made = self._canvas.create_text(
                x,
                frame.top - px(5),
                text=label,
                anchor="sw",
                font="OneTrainerSmall",
                fill=color,
            )
            x = self._canvas.bbox(made)[2] + px(12)


def _ends(one: Validated, frame: Frame) -> tuple[float, float]:
    """Return the upper and lower end of a band, at least one pixel apart."""
    half = half_band(one)
    top, bottom = frame.y(one.loss + half), frame.y(one.loss - half)
    return (top, bottom) if bottom - top >= 1 else (top - 0.5, bottom + 0.5)
