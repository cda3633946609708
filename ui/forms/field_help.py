"""Help of the field that has the keyboard, below its row in a grid."""

import tkinter as tk
from collections.abc import Iterator

from ui.widgets.widgets import Widgets

_GAP, _MARGIN = 8, 20


class FieldHelp:
    """Help below one field at a time. columns: Those of the grid."""

    def __init__(self, widgets: Widgets, parent: tk.Misc, columns: int, *, name: str) -> None:
        self._gap, self._columns = widgets.px(_GAP), columns
        self._box = widgets.striped(parent)
        self._text = text = widgets.label(self._box, style="Small")
        text.pack(anchor="w")
        room = widgets.px(_MARGIN)
        parent.bind("<Configure>", lambda event: text.configure(wraplength=event.width - room))
        widgets.name(text, name)

    def follow(self, box: tk.Misc, text: str, row: int) -> None:
        """Show a text in a row while something in a box has the keyboard."""
        for widget in _inside(box):
            widget.bind("<FocusIn>", lambda _: self._show(text, row), add="+")

    def _show(self, text: str, row: int) -> None:
        self._text.say(text, "Small")
        gap, columns = (0, self._gap), self._columns
        self._box.grid(row=row, column=0, columnspan=columns, sticky="w", pady=gap)


def _inside(box: tk.Misc) -> Iterator[tk.Misc]:
    """Yield all widgets inside a box."""
    for child in box.winfo_children():
        yield child
        yield from _inside(child)
