"""Rounded faces of buttons, cards and bars: small images that ttk stretches to a widget's size."""

import math
import tkinter as tk
from collections.abc import Callable, Sequence
from functools import cache
from tkinter import ttk
from typing import NamedTuple

from ui.theme.palette import Palette, Role
from ui.theme.smooth import make, mix


class Face(NamedTuple):
    """A rounded rectangle; lengths in pixels at 96 dpi.

    Attributes:
        fill: Its color.
        ground: Color around it.
        ring: Color of its edge; None for none.
        size: The least it has. Its middle is repeated where the widget is larger.
        radius: Of its corners.
        inset: From the left and right edge of the image, and from the upper and lower one.
        is_clear: Whether the image is transparent around it; corners still fade to `ground`.
        spare: What the image has more of its middle, so that this is repeated less often.
    """

    fill: Role
    ground: Role
    ring: Role | None = None
    size: tuple[int, int] = (48, 24)
    radius: float = 6
    inset: tuple[float, float] = (0, 0)
    is_clear: bool = False
    spare: tuple[int, int] = (0, 0)


Looks = Sequence[tuple[str, Face]]
"""Faces by the states of ttk in which they are seen, the first that applies; the last by ""."""
_RING = 2.0
# Pixels of spare middle along a thin face, such as an entry or a bar, and otherwise.
_LONG, _SHORT, _THIN = 144, 40, 24
_LASTING = ("", "disabled")  # looks that a widget has for long


class Faces:
    """Elements of ttk that are faces, and the styles that have them.

    They are made when the first widget needs them, and painted again, in place, for other colors.
    Another scale gets its own, because an element keeps the size of its first image.

    palette: Returns the colors in use.
    """

    def __init__(self, root: tk.Misc, palette: Callable[[], Palette]) -> None:
        self._root = root
        self._palette = palette
        self.scale = 1.0
        self._images: dict[tuple[Face, float], str] = {}
        self._styles: dict[str, Callable[[str], None]] = {}

    def style(self, name: str, layout: Callable[[], str], color: Callable[[str], None]) -> str:
        """Return the name of a style at this scale, which is set up at the first time.

        Args:
            name: Ends with the class of the widget.
            layout: Returns its layout.
            color: Sets the options that are colors, and the others, of the style of a name.
        """
        name = self._named(name)
        if name not in self._styles:
            self._root.tk.call("ttk::style", "layout", name, layout())
            self._styles[name] = color
            color(name)
        return name

    def configure(self, style: str, options: dict[str, object], **colors: Role) -> None:
        """Set options of a style, and its colors."""
        roles = {name: self._palette()[role] for name, role in colors.items()}
        ttk.Style(self._root).configure(style, None, **options, **roles)

    def map(self, style: str, **options: list[tuple[str, Role]]) -> None:
        """Set colors of a style by state."""
        colored = {
            name: [(state, self._palette()[role]) for state, role in roles]
            for name, roles in options.items()
        }
        ttk.Style(self._root).map(style, None, **colored)

    def element(self, name: str, looks: Looks) -> str:
        """Create an element of a style and return its name."""
        style, name = ttk.Style(self._root), self._named(name)
        if name not in style.element_names():
            first = looks[-1][1]
            width, height = map(self._px, first.size)
            border = [
                min(self._px(gap + first.radius), (side - 1) // 2)
                for gap, side in zip(first.inset, (width, height), strict=True)
            ]
            made = {
                states: self._image(_spacious(face) if states in _LASTING else face)
                for states, face in looks
            }
            rest = made.pop("")
            images = (rest, *(word for state in made.items() for word in state))
            options = ("-border", border, "-padding", 0, "-sticky", "nswe")
            size = ("-width", width, "-height", height)
            create = ("ttk::style", "element", "create", name, "image", images)
            self._root.tk.call(*create, *options, *size)
        return name

    def repaint(self) -> None:
        """Paint everything that is in use at this scale in other colors."""
        for face, scale in self._images:
            if scale == self.scale:
                self._paint(face)
        for name, color in self._styles.items():
            if name.startswith(self._named("")):
                color(name)

    def _named(self, name: str) -> str:
        return f"Of{round(100 * self.scale)}.{name}"

    def _px(self, length: float) -> int:
        return round(length * self.scale)

    def _size(self, face: Face) -> list[int]:
        return [self._px(sum(sides)) for sides in zip(face.size, face.spare, strict=True)]

    def _image(self, face: Face) -> str:
        key = face, self.scale
        if key not in self._images:
            self._images[key] = make(self._root, *self._size(face))
            self._paint(face)
        return self._images[key]

    def _paint(self, face: Face) -> None:
        palette, put, image = self._palette(), self._root.tk.call, self._images[face, self.scale]
        ground, fill = palette[face.ground], palette[face.fill]
        edge, ring = (palette[face.ring], self._px(_RING)) if face.ring else (fill, 0)
        (width, height), (left, top) = self._size(face), map(self._px, face.inset)
        right, bottom = width - left, height - top
        if not face.is_clear:
            put(image, "put", ground, "-to", 0, 0, width, height)
            if ground == fill and not ring:
                return
        reach = min(self._px(face.radius), (right - left) // 2, (bottom - top) // 2)
        # Tk reads the color of every pixel of a row anew, but that of a box once.
        for color, by in ((edge, 0), (fill, ring)) if ring else ((fill, 0),):
            for across, down in ((by, reach), (reach, by)):
                box = (left + across, top + down, right - across, bottom - down)
                if box[0] < box[2] and box[1] < box[3]:
                    put(image, "put", color, "-to", *box)
        for y, line in enumerate(_corner(reach, ring)):
            corner = [mix(mix(ground, edge, outer), fill, inner) for outer, inner in line if outer]
            row = "{" + " ".join(corner) + "}"
            put(image, "put", row, "-to", left + reach - len(corner), top + y)
        # The other corners are reflections of the first.
        quarter = ("-from", left, top, left + reach, top + reach, "-compositingrule", "set")
        for x, across in ((left, 1), (right - reach, -1)):
            for y, down in ((top, 1), (bottom - reach, -1)):
                if reach and (across, down) != (1, 1):
                    flip = ("-subsample", across, down)
                    put(image, "copy", image, *quarter, *flip, "-to", x, y)


def _spacious(face: Face) -> Face:
    """Return a face with spare middle, in the ways in which it has one.

    ttk repeats the middle piece by piece, each of which is a request to the screen: it took
    thousands of them to show a window. A look of a moment is not worth a larger image.
    """
    spare = (_LONG if across <= _THIN else _SHORT for across in reversed(face.size))
    width, height = (
        more if 2 * (gap + face.radius) < side else 0
        for more, gap, side in zip(spare, face.inset, face.size, strict=True)
    )
    return face._replace(spare=(width, height))


@cache
def _corner(radius: int, ring: int) -> list[list[tuple[float, float]]]:
    """Return what part of each pixel of an upper left corner is in the edge, and inside a ring."""

    def covered(x: float, y: float, radius: float) -> float:
        return min(max(0.5 + radius - math.hypot(x, y), 0.0), 1.0)

    places = [radius - place - 0.5 for place in range(radius)]
    return [[(covered(x, y, radius), covered(x, y, radius - ring)) for x in places] for y in places]
