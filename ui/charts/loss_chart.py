"""Loss chart: raw values as a band, the smoothed loss as a line.

The validation loss has its own panel below, with the same steps and its own scale, because its
changes are about a hundredth of the differences between training steps.
"""

import math
import tkinter as tk
from dataclasses import replace
from typing import Literal

from ui.charts.axes import Frame
from ui.charts.hover_label import draw_hover_label
from ui.charts.validation_panel import ValidationPanel, value_range
from ui.progress.curve import Curve, Point, smooth, thin, ticks
from ui.progress.validation import Validation
from ui.widgets.widgets import Kit

_LEFT, _TOP, _RIGHT, _BOTTOM = 56, 14, 16, 30
_LOW_FRACTION, _HIGH_FRACTION = 0.01, 0.99
_LINE_WIDTH = 2
_NEAR_START = 0.05
_TICK_GAP_X, _TICK_GAP_Y = 90, 44
# Fraction of the height that the validation panel takes, and the minimum height for it.
_PANEL_FRACTION, _PANEL_FROM = 0.46, 150
_BETWEEN = 28
# Below this height the chart is unreadable and the page scrolls.
_MIN_HEIGHT, _MIN_OF_TWO = 160, 172


class LossChart:
    """Chart of the training and validation loss; values are shown at the pointer."""

    def __init__(self, kit: Kit, parent: tk.Misc) -> None:
        self._kit = kit
        self.canvas = tk.Canvas(parent, highlightthickness=0, borderwidth=0, takefocus=0)
        kit.theme.paint(self.canvas, bg="card")
        kit.name(self.canvas, "loss chart")
        self.canvas.configure(width=200, height=kit.px(_MIN_HEIGHT))
        self._curve = Curve()
        self._marks: list[int] = []
        self._validation = Validation()
        self._panel = ValidationPanel(kit, self.canvas)
        self._frame: Frame | None = None
        self._panel_frame: Frame | None = None
        self._points: list[Point] = []
        self._smoothed: list[float] = []
        self._pointer: int | None = None
        self.strength = 0.9
        self.is_log = False
        self.canvas.bind("<Configure>", lambda _: self.draw())
        self.canvas.bind("<Motion>", self._pointer_moved)
        self.canvas.bind("<Leave>", self._pointer_left)
        self.canvas.bind("<<ThemeChanged>>", lambda _: self.draw())

    def show(self, curve: Curve, marks: list[int], validation: Validation) -> None:
        """Draw a curve. marks: steps at which samples were generated."""
        self._curve, self._marks, self._validation = curve, marks, validation
        min_height = self._kit.px(_MIN_OF_TWO if validation.exported else _MIN_HEIGHT)
        self.canvas.configure(height=min_height)
        self.draw()

    def draw(self) -> None:
        """Redraw in the current size and colors."""
        canvas = self.canvas
        canvas.delete("all")
        width, height = canvas.winfo_width(), canvas.winfo_height()
        px = self._kit.px
        columns = width - px(_LEFT + _RIGHT)
        self._frame = self._panel_frame = None
        if columns < px(60) or height < px(80):
            return
        self._points = thin(self._curve.points(), max(40, columns // 2))
        if not self._points:
            self._draw_placeholder(width, height)
            return
        self._smoothed = smooth(self._points, self.strength)
        self._frame = frame = self._fit(width, height)
        if self._validation.exported and height >= px(_PANEL_FROM):
            self._frame = frame = self._split_panel(frame)
        self._draw_grid(frame)
        self._draw_marks(frame)
        self._draw_lines(frame)
        if self._panel_frame is not None:
            self._panel.draw(self._validation, self._panel_frame)
        self._draw_pointer(frame)

    def _split_panel(self, frame: Frame) -> Frame:
        """Split a frame: return the upper part and keep the lower one for validation."""
        between = self._kit.px(_BETWEEN)
        edge = frame.bottom - (frame.bottom - frame.top) * _PANEL_FRACTION
        low, high = value_range(self._validation)
        first = min(frame.first_step, self._validation.exported[0].step)
        last = max(frame.last_step, self._validation.exported[-1].step)
        whole = replace(frame, first_step=first, last_step=last)
        self._panel_frame = replace(
            whole, top=edge + between / 2, lowest=low, highest=high, is_log=False
        )
        return replace(whole, bottom=edge - between / 2)

    def _fit(self, width: int, height: int) -> Frame:
        px = self._kit.px
        lows = sorted(point.lowest for point in self._points)
        highs = sorted(point.highest for point in self._points)
        # A few outliers must not flatten the rest.
        low = lows[int(_LOW_FRACTION * (len(lows) - 1))]
        high = max(highs[math.ceil(_HIGH_FRACTION * (len(highs) - 1))], max(self._smoothed))
        if high <= low:
            low, high = low - abs(low) * 0.1 - 1e-6, high + abs(high) * 0.1 + 1e-6
        if not self.is_log:
            pad = (high - low) * 0.06
            low, high = max(0.0, low - pad) if low >= 0 else low - pad, high + pad
        first = self._points[0].step
        return Frame(
            px(_LEFT),
            px(_TOP),
            width - px(_RIGHT),
            height - px(_BOTTOM),
            first if first > _NEAR_START * self._points[-1].step else 0,
            max(self._points[-1].step, 2),
            low,
            high,
            self.is_log,
        )

    def _draw_grid(self, frame: Frame) -> None:
        palette, px = self._kit.theme.palette, self._kit.px
        # Otherwise a low chart would have a single line.
        rows = max(3, int((frame.bottom - frame.top) / px(_TICK_GAP_Y)))
        for value in self._ticks_y(frame, rows):
            y = frame.y(value)
            self.canvas.create_line(frame.left, y, frame.right, y, fill=palette.line)
            self._draw_text(frame.left - px(8), y, f"{value:.3g}", "e")
        columns = max(2, int((frame.right - frame.left) / px(_TICK_GAP_X)))
        foot = (self._panel_frame or frame).bottom
        for step in ticks(frame.first_step, frame.last_step, columns):
            if step == int(step):
                self._draw_text(frame.x(step), foot + px(6), f"{int(step):,}", "n")

    def _ticks_y(self, frame: Frame, most: int) -> list[float]:
        if not frame.is_log:
            return ticks(frame.lowest, frame.highest, most)
        low = math.log10(max(frame.lowest, 1e-12))
        high = math.log10(max(frame.highest, 1e-12))
        return [10**power for power in ticks(low, high, most)]

    def _draw_marks(self, frame: Frame) -> None:
        px = self._kit.px
        for step in self._marks:
            if frame.first_step <= step <= frame.last_step:
                x = frame.x(step)
                size = px(3)
                self.canvas.create_polygon(
                    (x - size, frame.bottom, x, frame.bottom - 2 * size, x + size, frame.bottom),
                    fill=self._kit.theme.palette.good,
                )

    def _draw_lines(self, frame: Frame) -> None:
        palette = self._kit.theme.palette
        band: list[float] = []
        line: list[float] = []
        for point, value in zip(self._points, self._smoothed, strict=True):
            x = frame.x(point.step)
            band += [x, frame.y(point.lowest), x, frame.y(point.highest)]
            line += [x, frame.y(value)]
        if len(self._points) == 1:
            x, y = line
            size = self._kit.px(3)
            self.canvas.create_oval(x - size, y - size, x + size, y + size, fill=palette.accent)
            return
        self.canvas.create_line(band, fill=palette.plot, joinstyle="bevel")
        self.canvas.create_line(
            line, fill=palette.accent, width=self._kit.px(_LINE_WIDTH), joinstyle="round"
        )

    def _draw_pointer(self, frame: Frame) -> None:
        self.canvas.delete("pointer")
        if self._pointer is None or not frame.left <= self._pointer <= frame.right:
            return
        palette, px = self._kit.theme.palette, self._kit.px
        columns = (abs(frame.x(point.step) - self._pointer) for point in self._points)
        index = min(enumerate(columns), key=lambda pair: pair[1])[0]
        point, value = self._points[index], self._smoothed[index]
        x, y = frame.x(point.step), frame.y(value)
        foot = (self._panel_frame or frame).bottom
        self.canvas.create_line(x, frame.top, x, foot, fill=palette.border, tags="pointer")
        size = px(4)
        self.canvas.create_oval(
            x - size, y - size, x + size, y + size, fill=palette.accent, outline="", tags="pointer"
        )
        text = f"step {point.step:,}   loss {point.mean:.4g}   smoothed {value:.4g}"
        if self._panel_frame is not None:
            validation_text = self._panel.draw_pointer(
                self._validation, self._panel_frame, self._pointer
            )
            text += f"\n{validation_text}" if validation_text else ""
        draw_hover_label(self._kit, self.canvas, frame, x, text)

    def _draw_placeholder(self, width: int, height: int) -> None:
        self.canvas.create_text(
            width // 2,
            height // 2,
            text="The loss appears here after the first step.",
            font="OneTrainerBody",
            fill=self._kit.theme.palette.dim,
        )

    def _draw_text(self, x: float, y: float, text: str, anchor: Literal["e", "n"]) -> None:
        self.canvas.create_text(
            x,
            y,
            text=text,
            anchor=anchor,
            font="OneTrainerSmall",
            fill=self._kit.theme.palette.dim,
        )

    def _pointer_moved(self, event: "tk.Event[tk.Canvas]") -> None:
        self._pointer = event.x
        if self._frame is not None:
            self._draw_pointer(self._frame)

    def _pointer_left(self, _: "tk.Event[tk.Canvas]") -> None:
        self._pointer = None
        self.canvas.delete("pointer")
