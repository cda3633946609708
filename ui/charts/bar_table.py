"""Table of bars with name and value, such as the loss by concept."""

import tkinter as tk
from dataclasses import dataclass

from ui.theme.palette import Role
from ui.theme.theme import SMALL
from ui.widgets.drawing import Drawing
from ui.widgets.widgets import Widgets

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

    def __init__(self, widgets: Widgets, parent: tk.Misc, *, color: Role) -> None:
        self._color: Role = color
        self._rows: list[BarRow] = []
        self._mark = 0.0
        self._drawing = Drawing(widgets, parent, self._draw, width=widgets.px(120))
        self.canvas = self._drawing.canvas

    def show(self, rows: list[BarRow], *, mark: float = 0.0) -> None:
        """Draw rows. mark: position of a line across the bars, as a fraction; 0 for none."""
        if (rows, mark) != (self._rows, self._mark):
            self._rows, self._mark = rows, mark
            self._drawing.set_height(max(1, len(rows) * self._drawing.widgets.px(_ROW)))
            self._draw()

    def _draw(self) -> None:
        drawing, px, width = self._drawing, self._drawing.widgets.px, self._drawing.width
        drawing.begin()
        if not self._rows:
            return
        texts = [(row.name, row.figure, row.note) for row in self._rows]
        name, figure, note = (
            max(drawing.widgets.theme.measure(text, SMALL) for text in column)
            for column in zip(*texts, strict=True)
        )
        name = min(name, round(width * _MAX_NAME))
        end = width - (note + px(_GAP) if note else 0)
        left, right = px(_INSET) + name + px(_GAP), end - figure - px(_GAP)
        for index, row in enumerate(self._rows):
            y = index * px(_ROW) + px(_ROW) // 2
            drawing.text(px(_INSET), y, row.name, anchor="w", room=name)
            if right - left >= px(_MIN_BAR):
                self._draw_bar(row, y, left, right)
            drawing.text(end, y, row.figure, anchor="e")
            drawing.text(width, y, row.note, row.tone, anchor="e")

    def _draw_bar(self, row: BarRow, y: int, left: int, right: int) -> None:
        half = self._drawing.widgets.px(_BAR) // 2
        self._drawing.box(left, y - half, right, y + half, "raised")
        end = left + round((right - left) * min(1.0, max(0.0, row.fraction)))
        if end > left:
            self._drawing.box(left, y - half, end, y + half, self._color)
        if self._mark:
            x = left + round((right - left) * min(1.0, self._mark))
            self._drawing.line((x, y - 2 * half, x, y + 2 * half), "text")
