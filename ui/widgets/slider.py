"""Slider for a number between two, moved by the pointer, Left and Right; Tab reaches it."""

import tkinter as tk
from collections.abc import Callable
from functools import partial
from tkinter import ttk
from typing import NamedTuple

from ui.theme.rounded import slider_style
from ui.widgets.widgets import Widgets


class Scale(NamedTuple):
    """What a slider is for. text: With the place of its value: "Opacity {:.0f} %"."""

    name: str
    text: str
    ends: tuple[float, float]
    start: float
    by: float


def labeled_slider(widgets: Widgets, parent: tk.Misc, scale: Scale) -> "tuple[ttk.Frame, Slider]":
    """Create a slider behind a text with its value, which is kept; return what to place, and it."""
    box, start = widgets.frame(parent), widgets.kept.value(scale.name, scale.start)
    label = widgets.label(box, scale.text.format(start), style="Dim")
    # As wide as the longest, so that nothing moves while it is dragged; two letters are narrow.
    label.configure(width=2 - len(scale.text.format(scale.ends[1])))

    def say(value: float) -> None:
        label.say(scale.text.format(value))
        widgets.kept.keep(scale.name, value)

    slider = Slider(widgets, box, say, name=scale.name, ends=scale.ends, by=scale.by)
    slider.set(start)
    label.pack(side="left", padx=(0, widgets.px(6)))
    slider.widget.pack(side="left")
    return box, slider


class Slider:
    """A slider; place `widget`. changed: Called with the new value, not by `set`."""

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        changed: Callable[[float], None],
        *,
        name: str,
        ends: tuple[float, float] = (0.0, 1.0),
        by: float = 0.05,
        width: int = 110,
    ) -> None:
        """by: What a key changes."""
        self._changed, self._ends = changed, ends
        self.widget = ttk.Scale(
            parent,
            from_=ends[0],
            to=ends[1],
            length=widgets.px(width),
            style=slider_style(widgets.theme.faces),
            command=lambda value: changed(float(value)),  # Tk passes text
            takefocus=1,
        )
        self.widget.bind("<Button-1>", self._jump)
        for key, step in (("<Left>", -by), ("<Right>", by), ("<Down>", -by), ("<Up>", by)):
            self.widget.bind(key, partial(self._key, step))
        widgets.name(self.widget, name)

    @property
    def value(self) -> float:
        """What it shows."""
        return float(self.widget.get())

    def set(self, value: float) -> None:
        """Show a value."""
        self.widget.configure(value=value)

    def move(self, by: float) -> None:
        """Move it by a distance, as far as there is room."""
        self.set(min(max(self.value + by, self._ends[0]), self._ends[1]))
        self._changed(self.value)

    def _jump(self, event: "tk.Event[ttk.Scale]") -> str:
        """Move the knob to the pointer; Tk would move it by 1 toward it."""
        self.widget.focus_set()
        self.widget.tk.call("ttk::scale::Jump", str(self.widget), event.x, event.y)
        return "break"

    def _key(self, by: float, _: object) -> str:
        self.move(by)
        return "break"
