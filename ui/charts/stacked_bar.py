"""Stacked bar of parts compared with the available space, and a legend."""

import tkinter as tk
from collections.abc import Mapping, Sequence

from ui.progress.units import format_bytes
from ui.theme.palette import SERIES_COLORS
from ui.widgets.drawing import Drawing
from ui.widgets.widgets import Widgets

_BAR, _ROW, _SWATCH = 22, 20, 9
_SEAM = 1


class StackedBar:
    """Stacked bar as tall as it needs; place `canvas`."""

    def __init__(self, widgets: Widgets, parent: tk.Misc, *, has_legend: bool) -> None:
        self._has_legend = has_legend
        self._parts: Sequence[tuple[str, str, int]] = ()
        self._colors: Mapping[str, int] = {}
        self._room = 0
        self._drawing = Drawing(
            widgets, parent, self._draw, width=widgets.px(120), height=widgets.px(_BAR)
        )
        self.canvas = self._drawing.canvas

    def show(
        self, parts: Sequence[tuple[str, str, int]], colors: Mapping[str, int], room: int
    ) -> None:
        """Draw the parts of a whole.

        Args:
            parts: Name, label and size in bytes of each part.
            colors: Color number by name; other parts are gray.
            room: Available bytes; 0 if unknown.
        """
        if (parts, colors, room) != (self._parts, self._colors, self._room):
            self._parts, self._colors, self._room = parts, colors, room
            rows, px = len(parts) if self._has_legend else 0, self._drawing.widgets.px
            self._drawing.set_height(px(_BAR + 8) + rows * px(_ROW))
            self._draw()

    def _draw(self) -> None:
        drawing, px, width = self._drawing, self._drawing.widgets.px, self._drawing.width
        drawing.begin()
        whole = sum(size for _, _, size in self._parts)
        if not whole:
            return
        scale, start = width / max(whole, self._room), 0.0
        top, foot, colors = px(4), px(4 + _BAR), SERIES_COLORS[drawing.widgets.theme.mode]
        drawing.box(0, top, width, foot, "raised")
        for index, (name, label, size) in enumerate(self._parts):
            color = colors[self._colors.get(name, len(colors) - 1) % len(colors)]
            end = start + size * scale
            # A gap in the card's color separates parts without relying on color.
            edge = max(start + 1, end - px(_SEAM))
            drawing.canvas.create_rectangle(start, top, edge, foot, fill=color, outline="")
            start = end
            if self._has_legend:
                self._draw_label(index, color, label, size)
        if 0 < self._room < whole:  # mark the end of the available space
            x = self._room * scale
            drawing.box(x - px(2), 0, x + px(2), px(_BAR + 8), "card")
            drawing.line((x, 0, x, px(_BAR + 8)), "danger", width=px(2))

    def _draw_label(self, index: int, color: str, label: str, size: int) -> None:
        drawing, px = self._drawing, self._drawing.widgets.px
        y, half = px(_BAR + 8) + index * px(_ROW) + px(_ROW) // 2, px(_SWATCH) // 2
        box = (px(2), y - half, px(2) + 2 * half, y + half)
        drawing.canvas.create_rectangle(box, fill=color, outline="")
        drawing.text(px(18), y, label, anchor="w")
        drawing.text(drawing.width, y, format_bytes(size), anchor="e")
