"""A chart: panels one below the other over the same steps; values are shown at the pointer."""

import tkinter as tk
from collections.abc import Callable, Sequence

from ui.charts.panel import DOT, Panel, draw_panel, draw_steps, with_room_for_labels
from ui.charts.pointer_note import write_next_to
from ui.theme.palette import Role
from ui.theme.theme import BODY
from ui.widgets.drawing import Drawing
from ui.widgets.widgets import Widgets

_MIN_WIDTH, _LEAST_HEIGHT = 200, 80
_MIN_COLUMNS = 60

Panels = Callable[[int, int], Sequence[Panel]]
"""Returns the panels for a width and a height in pixels; none while there is nothing to show."""


class Chart:
    """Panels that are drawn again when size or theme change; place `canvas`."""

    def __init__(
        self, widgets: Widgets, parent: tk.Misc, panels: Panels, *, name: str, height: int
    ) -> None:
        self._panels_for = panels
        self._panels: Sequence[Panel] = ()
        self._placeholder = f"The {name} appears here after the first step."
        self._pointer: int | None = None
        self._drawing = Drawing(
            widgets, parent, self.draw, width=_MIN_WIDTH, height=height, name=f"{name} chart"
        )
        self.canvas = self._drawing.canvas
        self.canvas.bind("<Motion>", lambda event: self._show_values(event.x))
        self.canvas.bind("<Leave>", lambda _: self._show_values(None))

    def draw(self) -> None:
        """Redraw in the current size and colors."""
        drawing, px = self._drawing, self._drawing.widgets.px
        drawing.begin()
        width, height = drawing.width, drawing.height
        self._panels = ()
        if width < px(_MIN_COLUMNS + _MIN_COLUMNS) or height < px(_LEAST_HEIGHT):
            return
        self._panels = with_room_for_labels(drawing, self._panels_for(width, height))
        if not self._panels:
            middle = (width // 2, height // 2)
            drawing.text(*middle, self._placeholder, "dim", anchor="center", font=BODY)
            return
        for panel in self._panels:
            draw_panel(drawing, panel)
        draw_steps(drawing, self._panels[-1].frame)
        self._show_values(self._pointer)

    def _show_values(self, column: int | None) -> None:
        """Mark the points nearest to a column, and write their values."""
        self._pointer = column
        drawing, px = self._drawing, self._drawing.widgets.px
        self.canvas.delete("pointer")
        if column is None or not self._panels:
            return
        first = self._panels[0].frame
        if not first.left <= column <= first.right:
            return
        line_at = float(column)
        texts: list[str] = []
        dots: list[tuple[float, float, Role]] = []
        for panel, line in ((each, line) for each in self._panels for line in each.lines):
            if line.label is None or not line.points:
                continue
            index = line.nearest(panel.frame, column)
            step, value = line.points[index]
            x = panel.frame.x(step)
            if line.reach and abs(x - column) > px(line.reach):
                continue
            line_at = line_at if texts or line.reach else x
            dots.append((x, panel.frame.y(value), line.color))
            texts.append(line.label(index))
        if texts:
            ends = (line_at, first.top, line_at, self._panels[-1].frame.bottom)
            drawing.line(ends, "border", tags="pointer")
            for x, y, role in dots:
                drawing.dot(x, y, px(DOT + 1), role, tags="pointer")
            write_next_to(drawing, self._panels[0].frame, line_at, "\n".join(texts))
