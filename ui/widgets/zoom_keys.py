"""The keys that zoom what is drawn; with Ctrl they are those of the window's own size."""

import tkinter as tk
from collections.abc import Callable
from functools import partial


def bind_zoom_keys(
    widget: tk.Misc,
    *,
    larger: Callable[[], object],
    smaller: Callable[[], object],
    whole: Callable[[], object],
) -> None:
    """Let a widget's keys zoom what it shows."""
    for keys, do in (
        (("plus", "equal", "KP_Add"), larger),
        (("minus", "KP_Subtract"), smaller),
        (("Key-0",), whole),
    ):
        for key in keys:
            widget.bind(f"<{key}>", partial(_do, do))
            # A binding without Ctrl takes the key also with it, unless there is a closer one.
            widget.bind(f"<Control-{key}>", lambda _: None)


def _do(do: Callable[[], object], _: object) -> str:
    do()
    return "break"
