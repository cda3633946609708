"""Stacked bar of parts compared with the available space, and a legend."""

import tkinter as tk
from collections.abc import Mapping, Sequence

from ui.charts.panel import FONT, plain_canvas
from ui.progress.run_state import format_bytes
from ui.theme.palette import SERIES_COLORS
from ui.widgets.widgets import Kit

_BAR, _ROW, _SWATCH = 22, 20, 9
_SEAM = 1


class StackedBar:
    """Stacked bar as tall as it needs; place `canvas`."""

    def __init__(self, kit: Kit, parent: tk.Misc, *, has_legend: bool) -> None:
        self._kit = kit
        self._has_legend = has_legend
        self._parts: Sequence[tuple[str, str, int]] = ()
        self._colors: Mapping[str, int] = {}
        self._room = 0
        self.canvas = plain_canvas(kit, parent, self._draw, width=kit.px(120), height=kit.px(_BAR))

    def show(
        self, parts: Sequence[tuple[str, str, int]], colors: Mapping[str, int], room: int
    ) -> None:
        """Draw the parts of a whole.

        Args:
            parts: Name, label and size in bytes of each part.
            colors: Color number by name; other parts are gray.
            room: Available bytes; 0 if unknown.
        """
        if (parts, colors, room) == (self._parts, self._colors, self._room):
            return
        self._parts, self._colors, self._room = parts, colors, room
        rows = len(parts) if self._has_legend else 0
        px = self._kit.px
        self.canvas.configure(height=px(_BAR + 8) + rows * px(_ROW))
        self._draw()

    def _draw(self) -> None:
        self.canvas.delete("all")
        whole = sum(size for _, _, size in self._parts)
        if not whole:
            return
        width = self.canvas.winfo_width()
        scale = width / max(whole, self._room)
        self._draw_bar(width, scale)
        self._draw_edge(whole, scale)
        if self._has_legend:
            self._draw_legend(width)

    def _draw_bar(self, width: int, scale: float) -> None:
        px = self._kit.px
        top, foot = px(4), px(4 + _BAR)
        raised = self._kit.theme.palette.raised
        self.canvas.create_rectangle(0, top, width, foot, fill=raised, outline="")
        start = 0.0
        for name, _, size in self._parts:
            end = start + size * scale
            # A gap in the card's color separates parts without relying on color.
            edge = max(start + 1, end - px(_SEAM))
            self.canvas.create_rectangle(
                start, top, edge, foot, fill=self._color(name), outline="", width=0
            )
            start = end

    def _draw_edge(self, whole: int, scale: float) -> None:
        """Mark the end of the available space if the parts exceed it."""
        if not 0 < self._room < whole:
            return
        px, palette = self._kit.px, self._kit.theme.palette
        x = self._room * scale
        self.canvas.create_rectangle(
            x - px(2), 0, x + px(2), px(_BAR + 8), fill=palette.card, outline=""
        )
        self.canvas.create_line(x, 0, x, px(_BAR + 8), fill=palette.danger, width=px(2))

    def _draw_legend(self, width: int) -> None:
        px, palette = self._kit.px, self._kit.theme.palette
        for index, (name, label, size) in enumerate(self._parts):
            y = px(_BAR + 8) + index * px(_ROW) + px(_ROW) // 2
            half = px(_SWATCH) // 2
            self.canvas.create_rectangle(
                px(2), y - half, px(2) + 2 * half, y + half, fill=self._color(name), outline=""
            )
            self.canvas.create_text(px(18), y, text=label, anchor="w", font=FONT, fill=palette.text)
            self.canvas.create_text(
                width, y, text=format_bytes(size), anchor="e", font=FONT, fill=palette.text
            )

    def _color(self, name: str) -> str:
        colors = SERIES_COLORS[self._kit.theme.mode]
        return colors[self._colors.get(name, len(colors) - 1) % len(colors)]
