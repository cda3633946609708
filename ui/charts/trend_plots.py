"""Small plots of evaluation metrics (rewards, diversity, drift) on one canvas."""

import tkinter as tk
from collections.abc import Sequence
from dataclasses import dataclass

from ui.charts.axes import Frame
from ui.progress.rewards import Trend
from ui.theme.palette import Role
from ui.widgets.widgets import Kit

_HEIGHT, _TITLE, _GAP_X, _GAP_Y = 62, 18, 22, 12
_MIN_WIDTH, _MAX_COLUMNS = 150, 4
_PAD_FRACTION = 0.12
_LINE, _DOT = 2, 2
# More evaluations than this are thinned out, because the plots are narrow.
_MAX_MARKS = 120
_FONT = "OneTrainerSmall"
_DASH = (7, 3)
_COLORS: dict[str, Role] = {"trained": "accent", "watched": "validation", "drift": "dim"}


@dataclass(frozen=True)
class _Plot:
    """Trend and the position of its plot. top: upper edge of its text."""

    trend: Trend
    frame: Frame
    top: float


class TrendPlots:
    """Small plots in rows, as tall as needed; place `canvas`."""

    def __init__(self, kit: Kit, parent: tk.Misc) -> None:
        self._kit = kit
        self._trends: Sequence[Trend] = ()
        self._plots: list[_Plot] = []
        self.canvas = tk.Canvas(parent, highlightthickness=0, borderwidth=0, takefocus=0)
        self.canvas.configure(width=kit.px(_MIN_WIDTH), height=1)
        kit.theme.paint(self.canvas, bg="card")
        kit.name(self.canvas, "reward trends")
        self.canvas.bind("<Configure>", lambda _: self.draw())
        self.canvas.bind("<<ThemeChanged>>", lambda _: self.draw())
        self.canvas.bind("<Motion>", self._moved)
        self.canvas.bind("<Leave>", lambda _: self.canvas.delete("pointer"))

    def show(self, trends: Sequence[Trend]) -> None:
        """Draw trends."""
        if trends != self._trends:
            self._trends = trends
            self.draw()

    def draw(self) -> None:
        """Redraw in the current size and colors."""
        px, width = self._kit.px, self.canvas.winfo_width()
        if not self._trends or width < px(_MIN_WIDTH) // 2:
            self.canvas.delete("all")
            self._plots = []
            return
        columns = max(1, (width + px(_GAP_X)) // px(_MIN_WIDTH + _GAP_X))
        # Balance the number of plots in each row.
        columns = -(-len(self._trends) // -(-len(self._trends) // min(columns, _MAX_COLUMNS)))
        rows = -(-len(self._trends) // columns)
        pitch = (width + px(_GAP_X)) / columns
        height = rows * px(_HEIGHT + _GAP_Y) - px(_GAP_Y)
        if int(self.canvas.cget("height")) != height:
            self.canvas.configure(height=height)
        # Only now, because changing the height may trigger another draw.
        self.canvas.delete("all")
        self._plots = []
        for index, trend in enumerate(self._trends):
            row, column = divmod(index, columns)
            left, top = column * pitch, row * px(_HEIGHT + _GAP_Y)
            plot = _Plot(trend, self._frame(trend, left, top, pitch - px(_GAP_X)), top)
            self._plots.append(plot)
            self._draw_plot(plot)

    def _frame(self, trend: Trend, left: float, top: float, width: float) -> Frame:
        ends = [mark.value - mark.error for mark in trend.points]
        ends += [mark.value + mark.error for mark in trend.points]
        ends += [] if trend.base is None else [trend.base]
        low, high = min(ends), max(ends)
        pad = (high - low) * _PAD_FRACTION or abs(high) * 0.1 or 0.1
        px = self._kit.px
        return Frame(
            left + px(2),
            top + px(_TITLE),
            left + width - px(4),
            top + px(_HEIGHT),
            trend.points[0].step,
            trend.points[-1].step,
            low - pad,
            high + pad,
        )

    def _draw_plot(self, plot: _Plot) -> None:
        palette, px = self._kit.theme.palette, self._kit.px
        trend, frame = plot.trend, plot.frame
        self._draw_heading(plot)
        foot = frame.bottom
        self.canvas.create_line(frame.left, foot, frame.right, foot, fill=palette.line)
        marks = list(trend.points[:: -(-len(trend.points) // _MAX_MARKS)])
        if marks[-1] is not trend.points[-1]:
            marks.append(trend.points[-1])
        if len(marks) > 1 and any(mark.error for mark in marks):
            upper = [(frame.x(mark.step), frame.y(mark.value + mark.error)) for mark in marks]
            lower = [(frame.x(mark.step), frame.y(mark.value - mark.error)) for mark in marks]
            band = palette["validation_band" if trend.kind == "watched" else "selected"]
            self.canvas.create_polygon(*upper, *reversed(lower), fill=band, outline="")
        if trend.base is not None:
            y = frame.y(trend.base)
            self.canvas.create_line(frame.left, y, frame.right, y, fill=palette.border, dash=(2, 4))
        color = palette[self._color(trend)]
        points = [(frame.x(mark.step), frame.y(mark.value)) for mark in marks]
        if len(points) > 1:
            # Distinguishes it from a trained reward without relying on color.
            dash = _DASH if trend.kind == "watched" else ()
            self.canvas.create_line(
                *points, fill=color, width=px(_LINE), joinstyle="round", dash=dash
            )
        x, y = points[-1]
        size = px(_DOT + 1)
        self.canvas.create_oval(x - size, y - size, x + size, y + size, fill=color, outline="")

    def _draw_heading(self, plot: _Plot) -> None:
        """Draw the value at the right, and as much of the name as fits."""
        palette, px, trend = self._kit.theme.palette, self._kit.px, plot.trend
        left, right = plot.frame.left, plot.frame.right
        figure = self.canvas.create_text(
            right,
            plot.top,
            text=trend.figure,
            anchor="ne",
            font=_FONT,
            fill=palette[trend.tone],
            tags="figure",
        )
        room = self.canvas.bbox(figure)[0] - px(8) - left
        name = trend.name
        visible = name
        text = self.canvas.create_text(
            left, plot.top, text=name, anchor="nw", font=_FONT, fill=palette[self._color(trend)]
        )
        while visible and self.canvas.bbox(text)[2] - left > room:
            visible = visible[:-1]
            self.canvas.itemconfigure(text, text=f"{visible.rstrip()}…")

    def _color(self, trend: Trend) -> Role:
        return "warning" if trend.tone == "warning" else _COLORS[trend.kind]

    def _moved(self, event: "tk.Event[tk.Canvas]") -> None:
        self.canvas.delete("pointer")
        px, palette = self._kit.px, self._kit.theme.palette
        for plot in self._plots:
            frame = plot.frame
            if not (frame.left <= event.x <= frame.right and plot.top <= event.y <= frame.bottom):
                continue
            marks = plot.trend.points
            near = min(
                range(len(marks)), key=lambda index: abs(frame.x(marks[index].step) - event.x)
            )
            x, y, size = frame.x(marks[near].step), frame.y(marks[near].value), px(_DOT + 2)
            self.canvas.create_rectangle(
                frame.left - 2,
                plot.top,
                frame.right + 4,
                frame.top - 1,
                fill=palette.card,
                outline="",
                tags="pointer",
            )
            self.canvas.create_text(
                frame.left,
                plot.top,
                text=plot.trend.text_at(near),
                anchor="nw",
                font=_FONT,
                fill=palette.text,
                tags="pointer",
            )
            self.canvas.create_oval(
                x - size, y - size, x + size, y + size, fill=palette.text, tags="pointer"
            )
