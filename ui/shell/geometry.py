"""Place and size of the window on the screen."""

import tkinter as tk

from ui.theme.theme import Theme

# Pixels of the screen for the frame of the window and the panel of the desktop.
_SPARED = (16, 60)


def visible_geometry(geometry: str, root: tk.Tk) -> str:
    """Return the last geometry; "" if it is no longer on the screen."""
    size, *offsets = geometry.replace("-", "+").split("+")
    width, _, height = size.partition("x")
    if not (width.isdecimal() and height.isdecimal() and len(offsets) == 2):
        return ""
    fits = int(width) <= root.winfo_screenwidth() and int(height) <= root.winfo_screenheight()
    is_on = all(offset.isdecimal() for offset in offsets) and (
        int(offsets[0]) < root.winfo_screenwidth() - 100
        and int(offsets[1]) < root.winfo_screenheight() - 100
    )
    return geometry if fits and is_on else ""


def height_of(root: tk.Tk, geometry: str) -> int:
    """Return the height of a window; the one that its geometry says while it is not shown yet."""
    if root.winfo_viewable():
        return root.winfo_height()
    return int(geometry.replace("-", "+").partition("x")[2].partition("+")[0])


def fitting(theme: Theme, size: tuple[int, int]) -> tuple[int, int]:
    """Return a size in pixels of this screen, reduced to what the screen has room for."""
    px, (width, height), root = theme.px, size, theme.root
    room = root.winfo_screenwidth(), root.winfo_screenheight()
    return min(px(width), room[0] - _SPARED[0]), min(px(height), room[1] - _SPARED[1])
