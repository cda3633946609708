"""Table of bars with name and value, such as the loss by concept, on one canvas."""

import tkinter as tk
import tkinter.font
from dataclasses import dataclass
from typing import Literal

from ui.charts.panel import FONT, plain_canvas
from ui.messages.line_breaks import shorten
from ui.theme.palette import Role
from ui.widgets.widgets import Kit

_ROW, _BAR = 20, 8
_GAP = 10
# Matches the padding of a label.
_INSET = 2
_MIN_BAR = 24
_MAX_NAME = 0.42


@dataclass(frozen=True)
class BarRow:
    """Row of a bar table.

    fraction: length of the bar, 0 to 1. figure: text after the bar. note: more text,
    in color `tone`.
    """

    name: str
    fraction: float
    figure: str
    note: str = ""
    tone: Role = "dim"


class BarTable:
    """Bar table as tall as its rows; place `canvas`."""

    def __init__(self, kit: Kit, parent: tk.Misc, *, color: Role) -> None:
        self._kit = kit
        self._color: Role = color
        self._rows: list[BarRow] = []
        self._mark = 0.0
        self.canvas = plain_canvas(kit, parent, self._draw, width=kit.px(120))
        self._font = tkinter.font.nametofont(FONT, parent)

    def show(self, rows: list[BarRow], *, mark: float = 0.0) -> None:
        """Draw rows. mark: position of a line across the bars, as a fraction; 0 for none."""
        if (rows, mark) == (self._rows, self._mark):
            return
        self._rows, self._mark = rows, mark
        self.canvas.configure(height=max(1, len(rows) * self._kit.px(_ROW)))
        self._draw()

    def _draw(self) -> None:
        self.canvas.delete("all")
        if not self._rows:
            return
        px, measure = self._kit.px, self._font.measure
        width = self.canvas.winfo_width()
        name = min(max(measure(row.name) for row in self._rows), round(width * _MAX_NAME))
        figure = max(measure(row.figure) for row in self._rows)
        note = max(measure(row.note) for row in self._rows)
        left = px(_INSET) + name + px(_GAP)
        right = width - figure - px(_GAP) - (note + px(_GAP) if note else 0)
        for index, row in enumerate(self._rows):
            y = index * px(_ROW) + px(_ROW) // 2
            self._draw_text(px(_INSET), y, shorten(row.name, name, self._font.measure), "w", "text")
            if right - left >= px(_MIN_BAR):
                self._draw_bar(row, y, left, right)
            end = width - (note + px(_GAP) if note else 0)
            self._draw_text(end, y, row.figure, "e", "text")
            self._draw_text(width, y, row.note, "e", row.tone)

    def _draw_bar(self, row: BarRow, y: int, left: int, right: int) -> None:
        palette, half = self._kit.theme.palette, self._kit.px(_BAR) // 2
        end = left + round((right - left) * min(1.0, max(0.0, row.fraction)))
        boxes: tuple[tuple[int, Role], ...] = ((right, "raised"), (end, self._color))
        for edge, color in boxes:
            if edge > left:
                self.canvas.create_rectangle(
                    left, y - half, edge, y + half, fill=palette[color], outline=""
                )
        if self._mark:
            x = left + round((right - left) * min(1.0, self._mark))
            self.canvas.create_line(x, y - 2 * half, x, y + 2 * half, fill=palette.text)

    def _draw_text(self, x: int, y: int, text: str, anchor: Literal["w", "e"], tone: Role) -> None:
        color = self._kit.theme.palette[tone]
        self.canvas.create_text(x, y, text=text, anchor=anchor, font=FONT, fill=color)
