"""Slider whose stops are the steps at which samples were generated."""

import tkinter as tk
from collections.abc import Callable
from functools import partial

from ui.widgets.drawing import Drawing
from ui.widgets.widgets import Widgets, focused

_HEIGHT = 44
_PAD = 16
_KNOB = 8
_STOP = 2.5
_MAX_STOPS = 120


class Timeline:
    """Slider for arrow keys, Home, End, click and drag; Tab reaches it."""

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        moved: Callable[[int], None],
        *,
        name: str = "timeline",
    ) -> None:
        self._moved = moved
        self._stops: list[int] = []
        self._index = 0
        self._drawing = Drawing(
            widgets,
            parent,
            self.draw,
            width=10,
            height=widgets.px(_HEIGHT),
            name=name,
            takes_keys=True,
        )
        self.canvas = self._drawing.canvas
        for sequence in ("<Button-1>", "<B1-Motion>"):
            self.canvas.bind(sequence, self._clicked)
        moves = {"<Left>": -1, "<Right>": 1, "<Home>": -(10**9), "<End>": 10**9}
        for key, by in moves.items():
            self.canvas.bind(key, partial(self.move, by))

    def show(self, stops: list[int], step: int) -> None:
        """Show the stops, with the knob at the stop of a step."""
        index = stops.index(step) if step in stops else max(0, len(stops) - 1)
        if (stops, index) != (self._stops, self._index):
            self._stops, self._index = stops, index
            self.draw()

    def move(self, by: int, _: object = None) -> str:
        """Move the knob by a number of stops."""
        self._go(self._index + by)
        return "break"

    def draw(self) -> None:
        """Draw the line, the stops and the knob."""
        drawing, px = self._drawing, self._drawing.widgets.px
        drawing.begin()
        if not self._stops:
            return
        y, left, knob, right = px(15), px(_PAD), self._x(self._index), drawing.width - px(_PAD)
        drawing.line((left, y, right, y), "raised", width=px(4), cap="round")
        drawing.line((left, y, knob, y), "fill", width=px(4), cap="round")
        if len(self._stops) <= _MAX_STOPS:
            for index in range(len(self._stops)):
                drawing.dot(self._x(index), y, px(_STOP), "dim")
        if focused(self.canvas) is self.canvas:
            drawing.dot(knob, y, px(_KNOB + 3), "accent")
        drawing.dot(knob, y, px(_KNOB), "text")
        center, y, room = min(max(knob, left + px(24)), right - px(24)), px(27), px(70)
        drawing.text(center, y, f"step {self._stops[self._index]:,}", anchor="n")
        if center - left > room:
            drawing.text(left, y, f"{self._stops[0]:,}", "dim", anchor="n")
        if right - center > room:
            drawing.text(right, y, f"{self._stops[-1]:,}", "dim", anchor="ne")

    def _x(self, index: int) -> float:
        left = self._drawing.widgets.px(_PAD)
        last = len(self._stops) - 1
        return left + (self._drawing.width - 2 * left) * (index / last if last else 1.0)

    def _clicked(self, event: "tk.Event[tk.Canvas]") -> None:
        self.canvas.focus_set()
        if self._stops:
            indexes = range(len(self._stops))
            self._go(min(indexes, key=lambda index: abs(self._x(index) - event.x)))

    def _go(self, index: int) -> None:
        index = min(max(0, index), len(self._stops) - 1)
        if self._stops and index != self._index:
            self._index = index
            self.draw()
            self._moved(self._stops[index])
