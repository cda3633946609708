"""Widgets in a line that goes on in the next one where there is no room."""

import tkinter as tk
from tkinter import ttk

from ui.theme.palette import Role
from ui.widgets.widgets import Widgets

_GAP = 8


class Flow:
    """Places widgets of a box, in the order of `add`; the box must fill its own place.

    Where its width follows from what is in it, it would change each time that a line wraps.
    """

    def __init__(self, widgets: Widgets, box: ttk.Frame, *, ground: Role = "card") -> None:
        self._widgets, self._box, self._ground = widgets, box, ground
        self._parts: list[tk.Widget] = []
        self._lines: list[ttk.Frame] = []
        self._placed: list[int] = []
        box.bind("<Configure>", lambda event: self._fit(event.width))

    @property
    def width(self) -> int:
        """Width that a single line needs."""
        gap = self._widgets.px(_GAP)
        return sum(part.winfo_reqwidth() + gap for part in self._parts) - gap

    def add(self, widget: tk.Widget) -> None:
        """Add a widget of the box at the end."""
        self._parts.append(widget)
        widget.bind("<Configure>", lambda _: self._fit(self._box.winfo_width()), add="+")
        self._fit(self._box.winfo_width())

    def _fit(self, room: int) -> None:
        gap, left, line = self._widgets.px(_GAP), 0, 0
        placed = []
        for part in self._parts:
            width = part.winfo_reqwidth()
            if left and left + width > room > 1:
                left, line = 0, line + 1
            placed.append(line)
            left += width + gap
        if placed == self._placed:
            return
        self._placed = placed
        while len(self._lines) <= line:
            self._lines.append(self._widgets.frame(self._box, ground=self._ground))
            self._lines[-1].lower()  # below what is placed in it
        for index, frame in enumerate(self._lines):
            if index <= line:
                frame.pack(anchor="w", pady=(gap if index else 0, 0))
            else:
                frame.pack_forget()
        before = -1
        for part, index in zip(self._parts, placed, strict=True):
            part.pack(in_=self._lines[index], side="left", padx=(gap * (index == before), 0))
            before = index
