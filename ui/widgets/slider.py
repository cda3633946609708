"""Slider for a number between two, moved by the pointer, Left and Right; Tab reaches it."""

import tkinter as tk
from collections.abc import Callable
from functools import partial

import customtkinter

from ui.theme.theme import pair
from ui.widgets.button import focusable
from ui.widgets.widgets import Widgets


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
        self._changed, self._ends = changed, ends
        self.widget = slider = customtkinter.CTkSlider(
            parent,
            from_=ends[0],
            to=ends[1],
            width=width,
            height=16,
            command=changed,
            fg_color=pair("raised"),
            progress_color=pair("fill"),
            button_color=pair("text"),
            button_hover_color=pair("accent"),
            border_color="transparent",
            bg_color=pair("card"),
        )
        focusable(
            slider,
            lambda: None,
            lambda has: slider.configure(button_color=pair("accent" if has else "text")),
        )
        canvas = next(c for c in slider.winfo_children() if isinstance(c, tk.Canvas))
        for wheel in ("<MouseWheel>", "<Button-4>", "<Button-5>"):
            canvas.unbind(wheel)
        for key, step in (("<Left>", -by), ("<Right>", by)):
            canvas.bind(key, partial(self._nudge, step))
        widgets.name(slider, name)

    def set(self, value: float) -> None:
        """Show a value."""
        self.widget.set(value)

    def _nudge(self, by: float, _: object) -> None:
        value = min(max(self.widget.get() + by, self._ends[0]), self._ends[1])
        self.widget.set(value)
        self._changed(value)
