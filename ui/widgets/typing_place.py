"""Where somebody types: a control, and a place in its text, which outlive the widgets."""

import tkinter as tk
from typing import NamedTuple

from ui.widgets.widgets import Widgets, focused


class TypingPlace(NamedTuple):
    """The name of a control, and its insertion cursor; "" for none."""

    name: str = ""
    cursor: str = ""


def typing_place(widgets: Widgets, root: tk.Tk) -> TypingPlace:
    """Return where the keyboard is."""
    focus = focused(root)
    name = next((name for name, widget in widgets.named.items() if widget is focus), "")
    if not isinstance(focus, tk.Text | tk.Entry):  # also entries and combo boxes of ttk
        return TypingPlace(name)
    return TypingPlace(name, str(focus.index("insert")))


def return_to(place: TypingPlace, widgets: Widgets) -> None:
    """Give the keyboard to the control of that name, if it is on the screen."""
    target = widgets.named.get(place.name)
    if target is None:
        return
    target.update_idletasks()  # what was just placed is on the screen only then
    if not target.winfo_viewable():
        return
    target.focus_set()
    if place.cursor and isinstance(target, tk.Text):
        target.mark_set("insert", place.cursor)
        target.see("insert")
    elif place.cursor and isinstance(target, tk.Entry):
        target.icursor(place.cursor)
