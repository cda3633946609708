"""Small plots of evaluation metrics (rewards, diversity, drift) on one canvas."""

import tkinter as tk
from collections.abc import Sequence

from ui.charts.panel import DOT, Frame, Line, draw_lines, padded_range
from ui.progress.rewards import Trend
from ui.theme.palette import Role
from ui.widgets.drawing import Drawing
from ui.widgets.widgets import Widgets

_HEIGHT, _TITLE, _GAP_X, _GAP_Y = 62, 18, 22, 12
_MIN_WIDTH, _MAX_COLUMNS = 150, 4
# More evaluations than this are thinned out, because the plots are narrow.
_MAX_MARKS = 120
_COLORS: dict[str, Role] = {"trained": "accent", "monitored": "validation", "drift": "dim"}


class TrendPlots:
    """Small plots in rows, as tall as needed; place `canvas`."""

    def __init__(self, widgets: Widgets, parent: tk.Misc) -> None:
        self._trends: Sequence[Trend] = ()
        self._plots: list[tuple[Trend, Frame]] = []
        width = widgets.px(_MIN_WIDTH)
        self._drawing = Drawing(widgets, parent, self.draw, width=width, name="reward trends")
        self.canvas = self._drawing.canvas
        self.canvas.bind("<Motion>", self._moved)
        self.canvas.bind("<Leave>", lambda _: self.canvas.delete("pointer"))

    def show(self, trends: Sequence[Trend]) -> None:
        """Draw trends."""
        if trends != self._trends:
            self._trends = trends
            self.draw()

    def draw(self) -> None:
        """Redraw in the current size and colors."""
        px, width = self._drawing.widgets.px, self._drawing.width
        self._plots = []
        if not self._trends or width < px(_MIN_WIDTH) // 2:
            self._drawing.begin()
            return
        columns = max(1, (width + px(_GAP_X)) // px(_MIN_WIDTH + _GAP_X))
        # Balance the number of plots in each row.
        rows = -(-len(self._trends) // min(columns, _MAX_COLUMNS))
        columns = -(-len(self._trends) // rows)
        rows = -(-len(self._trends) // columns)
        pitch = (width + px(_GAP_X)) / columns
        self._drawing.set_height(rows * px(_HEIGHT + _GAP_Y) - px(_GAP_Y))
        # Only now, because changing the height may trigger another draw.
        self._drawing.begin()
        self._plots = []
        for index, trend in enumerate(self._trends):
            row, column = divmod(index, columns)
            self._draw_plot(trend, column * pitch, row * px(_HEIGHT + _GAP_Y), pitch - px(_GAP_X))

    def _draw_plot(self, trend: Trend, left: float, top: float, width: float) -> None:
        drawing, px = self._drawing, self._drawing.widgets.px
        marks = list(trend.points[:: -(-len(trend.points) // _MAX_MARKS)])
        if marks[-1] is not trend.points[-1]:
            marks.append(trend.points[-1])
        line = Line(
            [(mark.step, mark.value) for mark in marks],
            "warning" if trend.tone == "warning" else _COLORS[trend.kind],
            # Distinguishes it from a trained reward without relying on color.
            dash=(7, 3) if trend.kind == "monitored" else (),
            halves=[mark.error for mark in marks] if any(mark.error for mark in marks[1:]) else (),
            band_color="validation_band" if trend.kind == "monitored" else "selected",
            dots="last",
        )
        signs = (-1, 1)
        ends = [mark.value + sign * mark.error for mark in trend.points for sign in signs]
        frame = Frame(
            left + px(2),
            top + px(_TITLE),
            left + width - px(4),
            top + px(_HEIGHT),
            trend.points[0].step,
            trend.points[-1].step,
            *padded_range(ends if trend.base is None else [*ends, trend.base], 0.12),
        )
        self._plots.append((trend, frame))
        figure = drawing.text(
            frame.right, top, trend.figure, trend.tone, anchor="ne", tags="figure"
        )
        room = self.canvas.bbox(figure)[0] - px(8) - frame.left
        drawing.text(frame.left, top, trend.name, line.color, room=room)
        drawing.line((frame.left, frame.bottom, frame.right, frame.bottom), "line")
        draw_lines(drawing, frame, [line], trend.base)

    def _moved(self, event: "tk.Event[tk.Canvas]") -> None:
        drawing, px = self._drawing, self._drawing.widgets.px
        self.canvas.delete("pointer")
        for trend, frame in self._plots:
            top = frame.top - px(_TITLE)
            if not (frame.left <= event.x <= frame.right and top <= event.y <= frame.bottom):
                continue
            points = [(point.step, point.value) for point in trend.points]
            near = Line(points, "text").nearest(frame, event.x)
            cover = (frame.left - 2, top, frame.right + 4, frame.top - 1)
            drawing.box(*cover, "card", tags="pointer")
            drawing.text(frame.left, top, trend.text_at(near), tags="pointer")
            step, value = points[near]
            drawing.dot(frame.x(step), frame.y(value), px(DOT + 1), "text", tags="pointer")
