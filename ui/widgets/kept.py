"""What people type and choose outside of the settings, which outlives the widgets that show it.

A change of size builds all pages anew. The settings are in the draft then; everything else that is
typed is here, by the name of its control.
"""

import tkinter as tk
from collections.abc import Callable
from typing import TypeVar, cast

from ui.widgets.changes import on_change

Value = TypeVar("Value")


class Kept:
    """Values by name; each name always has values of one type."""

    def __init__(self) -> None:
        self._values: dict[str, object] = {}

    def value(self, name: str, default: Value) -> Value:
        """Return what was kept last, or a default."""
        return cast("Value", self._values.get(name, default))

    def keep(self, name: str, value: object) -> None:
        """Keep a value in place of the one before."""
        self._values[name] = value

    def once(self, name: str, make: Callable[[], Value]) -> Value:
        """Return an object that is made at the first request and changes itself from then on."""
        if name not in self._values:
            self._values[name] = make()
        return cast("Value", self._values[name])

    def variable(self, parent: tk.Misc, name: str, default: str = "") -> tk.StringVar:
        """Create the variable of a control."""
        made = tk.StringVar(parent, self.value(name, default))
        on_change(made, parent, lambda: self.keep(name, made.get()))
        return made

    def text(self, box: tk.Text, name: str, default: str = "") -> None:
        """Fill a field of several lines, and keep what is typed there."""
        box.insert("1.0", self.value(name, default))
        box.edit_modified(False)

        def modified(_: "tk.Event[tk.Text]") -> None:
            if box.edit_modified():
                self.keep(name, box.get("1.0", "end-1c"))
                box.edit_modified(False)

        box.bind("<<Modified>>", modified)
