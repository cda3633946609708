"""A chart: panels one below the other over the same steps; values are shown at the pointer."""

import tkinter as tk
from collections.abc import Callable, Sequence

from ui.charts.panel import DOT, Panel, Pen, plain_canvas
from ui.theme.palette import Role
from ui.widgets.widgets import Kit

_MIN_WIDTH, _LEAST_HEIGHT = 200, 80
_MIN_COLUMNS = 60

Panels = Callable[[int, int], Sequence[Panel]]
"""Returns the panels for a width and a height in pixels; none while there is nothing to show."""


class Chart:
    """Canvas that redraws panels when size or theme change; place `canvas`."""

    def __init__(
        self, kit: Kit, parent: tk.Misc, panels: Panels, *, name: str, height: int
    ) -> None:
        self._kit = kit
        self._panels_for = panels
        self._panels: Sequence[Panel] = ()
        self._placeholder = f"The {name} appears here after the first step."
        self._pointer: int | None = None
        self.canvas = plain_canvas(kit, parent, self.draw, width=_MIN_WIDTH, height=height)
        kit.name(self.canvas, f"{name} chart")
        self._pen = Pen(kit, self.canvas)
        self.canvas.bind("<Motion>", lambda event: self._show_values(event.x))
        self.canvas.bind("<Leave>", lambda _: self._show_values(None))

    def draw(self) -> None:
        """Redraw in the current size and colors."""
        canvas, px = self.canvas, self._kit.px
        canvas.delete("all")
        width, height = canvas.winfo_width(), canvas.winfo_height()
        self._panels = ()
        if width < px(_MIN_COLUMNS + _MIN_COLUMNS) or height < px(_LEAST_HEIGHT):
            return
        self._panels = self._panels_for(width, height)
        if not self._panels:
            color = self._kit.theme.palette.dim
            at, font = (width // 2, height // 2), "OneTrainerBody"
            canvas.create_text(*at, text=self._placeholder, font=font, fill=color)
            return
        for panel in self._panels:
            self._pen.panel(panel)
        self._pen.steps(self._panels[-1].frame)
        self._show_values(self._pointer)

    def _show_values(self, column: int | None) -> None:
        """Mark the points nearest to a column, and write their values."""
        self._pointer = column
        self.canvas.delete("pointer")
        if column is None or not self._panels:
            return
        first = self._panels[0].frame
        if not first.left <= column <= first.right:
            return
        line_at = float(column)
        texts: list[str] = []
        dots: list[tuple[float, float, Role]] = []
        for panel in self._panels:
            for line in panel.lines:
                if line.label is None or not line.points:
                    continue
                index = line.nearest(panel.frame, column)
                step, value = line.points[index]
                x = panel.frame.x(step)
                if line.reach and abs(x - column) > self._kit.px(line.reach):
                    continue
                line_at = line_at if texts or line.reach else x
                dots.append((x, panel.frame.y(value), line.color))
                texts.append(line.label(index))
        if texts:
            foot, color = self._panels[-1].frame.bottom, self._kit.theme.palette.border
            ends = (line_at, first.top, line_at, foot)
            self.canvas.create_line(ends, fill=color, tags="pointer")
            for x, y, role in dots:
                self._pen.dot(x, y, DOT + 1, role, tags="pointer")
            self._write_beside(line_at, "\n".join(texts))

    def _write_beside(self, x: float, text: str) -> None:
        """Write in a box next to a column, on the side with more space."""
        canvas, px, palette = self.canvas, self._kit.px, self._kit.theme.palette
        frame = self._panels[0].frame
        is_left = x < (frame.left + frame.right) / 2
        at = x + px(10) if is_left else x - px(10)
        item = self._pen.text(at, frame.top + px(4), text, "nw" if is_left else "ne", "text")
        left, top, right, bottom = canvas.bbox(item)
        pad = px(4)
        # In a narrow chart the text fits on neither side.
        shift = max(0, pad - left) or min(0, canvas.winfo_width() - pad - right)
        canvas.move(item, shift, 0)
        box = (left + shift - pad, top - pad, right + shift + pad, bottom + pad)
        ground = canvas.create_rectangle(box, fill=palette.raised, outline="", tags="pointer")
        canvas.tag_lower(ground, item)
        canvas.itemconfigure(item, tags="pointer")
