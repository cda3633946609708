"""Slider whose stops are the steps at which samples were generated."""

import tkinter as tk
from collections.abc import Callable
from functools import partial

from ui.widgets.widgets import Kit, focused

_HEIGHT = 44
_PAD = 16
_KNOB = 8
_STOP = 2.5
_MAX_STOPS = 120


class Timeline:
    """Slider for arrow keys, Home, End, click and drag; Tab reaches it."""

    def __init__(
        self, kit: Kit, parent: tk.Misc, moved: Callable[[int], None], *, name: str = "timeline"
    ) -> None:
        self._kit = kit
        self._moved = moved
        self._stops: list[int] = []
        self._index = 0
        self.canvas = tk.Canvas(
            parent, height=kit.px(_HEIGHT), width=10, highlightthickness=0, takefocus=1
        )
        kit.theme.paint(self.canvas, bg="card")
        kit.name(self.canvas, name)
        for sequence in ("<Configure>", "<<ThemeChanged>>", "<FocusIn>", "<FocusOut>"):
            self.canvas.bind(sequence, lambda _: self.draw())
        self.canvas.bind("<Button-1>", self._clicked)
        self.canvas.bind("<B1-Motion>", self._clicked)
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
        canvas, palette, px = self.canvas, self._kit.theme.palette, self._kit.px
        canvas.delete("all")
        if not self._stops:
            return
        y = px(15)
        left, right = px(_PAD), canvas.winfo_width() - px(_PAD)
        canvas.create_line(left, y, right, y, fill=palette.raised, width=px(4), capstyle="round")
        knob = self._x(self._index)
        canvas.create_line(left, y, knob, y, fill=palette.fill, width=px(4), capstyle="round")
        if len(self._stops) <= _MAX_STOPS:
            for index in range(len(self._stops)):
                self._dot(self._x(index), y, px(_STOP), palette.dim)
        if focused(canvas) is canvas:
            self._dot(knob, y, px(_KNOB + 3), palette.accent)
        self._dot(knob, y, px(_KNOB), palette.text)
        self._draw_labels(left, right, knob)

    def _draw_labels(self, left: float, right: float, knob: float) -> None:
        palette, px = self._kit.theme.palette, self._kit.px
        room = px(70)
        now = f"step {self._stops[self._index]:,}"
        canvas, y = self.canvas, px(27)
        small = "OneTrainerSmall"
        center = min(max(knob, left + px(24)), right - px(24))
        canvas.create_text(center, y, text=now, anchor="n", font=small, fill=palette.text)
        if center - left > room:
            first = f"{self._stops[0]:,}"
            canvas.create_text(left, y, text=first, anchor="n", font=small, fill=palette.dim)
        if right - center > room:
            last = f"{self._stops[-1]:,}"
            canvas.create_text(right, y, text=last, anchor="ne", font=small, fill=palette.dim)

    def _dot(self, x: float, y: float, radius: float, color: str) -> None:
        self.canvas.create_oval(
            x - radius, y - radius, x + radius, y + radius, fill=color, outline=""
        )

    def _x(self, index: int) -> float:
        left, right = self._kit.px(_PAD), self.canvas.winfo_width() - self._kit.px(_PAD)
        last = len(self._stops) - 1
        return left + (right - left) * (index / last if last else 1.0)

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
