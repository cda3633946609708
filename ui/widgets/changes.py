"""Functions that are called when the variable of a control changes."""

import tkinter as tk
from collections.abc import Callable


def on_change(variable: tk.Variable, owner: tk.Misc, call: Callable[[], object]) -> None:
    """Call a function after each change of a variable, as long as a widget exists.

    Tcl keeps the function, and all that it refers to, until its command is deleted: here with the
    widget. `trace_add` leaves that to the variable, to which the function usually refers itself.
    """
    name = owner.register(lambda *_: call())
    owner.tk.call("trace", "add", "variable", str(variable), "write", name)
