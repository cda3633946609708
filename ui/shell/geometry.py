"""Place and size of the window on the screen."""

import tkinter as tk


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
