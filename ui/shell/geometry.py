"""Place and size of the window on the screen."""

import tkinter as tk

from ui.theme.theme import Theme

# Pixels of the screen for the frame of the window and the panel of the desktop.
_SPARED = (16, 60)


def visible_geometry(geometry: str, root: tk.Tk) -> str:
    """Return the last geometry; "" if it is no longer on the screen. It may be a size alone."""
    size, *offsets = geometry.replace("-", "+").split("+")
    width, _, height = size.partition("x")
    if not (width.isdecimal() and height.isdecimal() and len(offsets) in (0, 2)):
        return ""
    screen = root.winfo_screenwidth(), root.winfo_screenheight()
    fits = int(width) <= screen[0] and int(height) <= screen[1]
    is_on = all(
        offset.isdecimal() and int(offset) < side - 100
        for offset, side in zip(offsets, screen, strict=False)
    )
    return geometry if fits and is_on else ""


def known_geometry(root: tk.Tk, asked: str) -> str:
    """Return the geometry of a window that was opened with `asked`, as another start needs it.

    That is of its frame: of the inside, as `winfo_geometry` tells it, the window would move down
    each time. Where the window manager has chosen the place and nobody has moved it since, Tk
    takes it to be at +0+0; the window manager then chooses again.
    """
    geometry = root.geometry()
    return geometry if "+" in asked else geometry.removesuffix("+0+0")


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
