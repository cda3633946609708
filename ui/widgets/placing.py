"""Showing, hiding and wrapping of widgets."""

import tkinter as tk
from collections.abc import Callable
from tkinter import ttk

from ui.theme.palette import Role


def show(widget: tk.Widget, is_shown: bool, **how: object) -> None:
    """Pack a widget, or hide it. how: as for `pack`."""
    if not is_shown:
        widget.pack_forget()
    elif not widget.winfo_manager():
        widget.pack(**how)  # type: ignore[arg-type]  # Tk checks them


def show_in_grid(widget: tk.Widget, is_shown: bool) -> None:
    """Return a widget to its place in a grid, or hide it."""
    if is_shown:
        widget.grid()
    else:
        widget.grid_remove()


def toned(tone: Role, font: str = "") -> str:
    """Return the style of a label in a tone: "SmallWarning"; "Small" for ordinary text."""
    return font if tone == "text" else f"{font}{tone.capitalize()}"


def wrap_within(box: tk.Misc, *labels: ttk.Label, margin: int = 8, most: int = 0) -> None:
    """Keep labels wrapped to the width of a widget, and to at most so many pixels."""

    def wrap(event: "tk.Event[tk.Misc]") -> None:
        for label in labels:
            room = max(200, event.width - margin)
            label.configure(wraplength=min(room, most) if most else room)

    box.bind("<Configure>", wrap, add="+")


def place_two(
    first: tk.Widget,
    second: tk.Widget,
    *,
    is_beside: bool,
    widths: tuple[int, int] = (1, 1),
    heights: tuple[int, int] = (1, 1),
    gap: int,
) -> None:
    """Put two widgets of one box beside each other, or the second below the first.

    widths, heights: How they share the room. gap: Between them in pixels.
    """
    box = first.master
    for line in (0, 1):
        width, height = (widths[line], 1 - line) if is_beside else (1 - line, heights[line])
        box.grid_columnconfigure(line, weight=width, uniform="beside" if is_beside else "")
        box.grid_rowconfigure(line, weight=height)
    first.grid(row=0, column=0, sticky="nsew")
    column, row = (1, 0) if is_beside else (0, 1)
    apart = (gap * column, 0), (gap * row, 0)
    second.grid(row=row, column=column, sticky="nsew", padx=apart[0], pady=apart[1])


def while_visible(widget: tk.Misc, refresh: Callable[[], None]) -> Callable[[], None]:
    """Return a function that refreshes only while a widget is displayed."""

    def refresh_if_visible() -> None:
        if widget.winfo_ismapped():
            refresh()

    return refresh_if_visible


def give_focus(target: tk.Misc | None) -> str:
    """Move the keyboard focus, as the whole effect of a key."""
    if target is not None:
        target.focus_set()
    return "break"
