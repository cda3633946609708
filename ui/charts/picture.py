"""Charts as an image file: what is drawn is noted first, and painted in a thread."""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from ui.theme.fonts import label_font
from ui.theme.palette import Palette, Role
from ui.widgets.drawing import Anchor

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

_FONT_SIZE = 12
# Pixels of the file for one of the drawing, and how many more are painted, since Pillow's lines
# have no smooth edges.
_SCALE, _FINER = 2, 2
_PILLOW_ANCHORS: dict[Anchor, str] = {
    **{"nw": "la", "n": "ma", "ne": "ra"},
    **{"w": "lm", "center": "mm", "e": "rm", "sw": "ld"},
}
Points = Sequence[tuple[float, float]]


class Picture:
    """A pen for an image of a size, with a margin around it, in the colors of a palette."""

    def __init__(self, size: tuple[int, int], palette: Palette, *, margin: int = 0) -> None:
        self._size, self._palette, self._margin = size, palette, margin
        self._by = _SCALE * _FINER
        self._font = label_font(_FONT_SIZE * self._by)
        self._noted: list[Callable[[ImageDraw], None]] = []

    @property
    def width(self) -> int:
        """Width in pixels of the drawing."""
        return self._size[0]

    def px(self, length: float) -> int:
        """Return a length as it is."""
        return round(length)

    def measure(self, text: str) -> int:
        """Return the width of a text."""
        return math.ceil(self._font.getlength(text) / self._by)

    def text(
        self, x: float, y: float, text: str, role: Role = "text", *, anchor: Anchor = "nw"
    ) -> int:
        """Write a text."""
        self._noted.append(partial(self._paint_text, (x, y), text, role, _PILLOW_ANCHORS[anchor]))
        return 0

    def line(
        self,
        points: tuple[float, float, float, float],
        role: Role,
        *,
        dash: tuple[int, ...] = (),
    ) -> None:
        """Draw a line from a point to another: x, y, x, y."""
        self.path([points[:2], points[2:]], role, dash=dash)

    def path(
        self, points: Points, role: Role, *, width: int = 1, dash: tuple[int, ...] = ()
    ) -> None:
        """Draw a line through at least two points."""
        parts = dashes(points, dash) if dash else [points]
        self._noted += [partial(self._paint_path, part, role, width) for part in parts]

    def area(self, points: Points, role: Role, *, outline: Role | None = None) -> None:
        """Fill a polygon."""
        self._noted.append(partial(self._paint_area, points, role, outline))

    def dot(self, x: float, y: float, radius: float, role: Role) -> None:
        """Draw a filled circle."""
        self._noted.append(partial(self._paint_circle, (x, y), radius, role, 0))

    def ring(self, x: float, y: float, radius: float, role: Role, *, width: int) -> None:
        """Draw a circle."""
        self._noted.append(partial(self._paint_circle, (x, y), radius, role, width))

    def save(self, path: Path) -> None:
        """Paint what was drawn, and write it as PNG; may run in any thread."""
        from PIL import Image, ImageDraw

        from onetrainer.files.atomic import write_atomic

        wide, high = ((side + 2 * self._margin) * self._by for side in self._size)
        image = Image.new("RGB", (wide, high), self._palette["card"])
        brush = ImageDraw.Draw(image)
        for paint in self._noted:
            paint(brush)
        file = BytesIO()
        image.reduce(_FINER).save(file, "PNG")
        write_atomic(path, file.getvalue())

    def _at(self, points: Points) -> list[tuple[float, float]]:
        return [((x + self._margin) * self._by, (y + self._margin) * self._by) for x, y in points]

    def _paint_text(
        self, at: tuple[float, float], text: str, role: Role, anchor: str, brush: "ImageDraw"
    ) -> None:
        brush.text(self._at([at])[0], text, self._palette[role], self._font, anchor)

    def _paint_path(self, points: Points, role: Role, width: int, brush: "ImageDraw") -> None:
        joint = "curve" if width > 1 else None
        brush.line(self._at(points), self._palette[role], width * self._by, joint)

    def _paint_area(
        self, points: Points, role: Role, outline: Role | None, brush: "ImageDraw"
    ) -> None:
        edge = self._palette[outline] if outline else None
        brush.polygon(self._at(points), self._palette[role], edge, self._by)

    def _paint_circle(
        self, at: tuple[float, float], radius: float, role: Role, width: int, brush: "ImageDraw"
    ) -> None:
        (x, y), size, color = self._at([at])[0], radius * self._by, self._palette[role]
        box = (x - size, y - size, x + size, y + size)
        if width:
            brush.ellipse(box, outline=color, width=width * self._by)
        else:
            brush.ellipse(box, fill=color)


def dashes(points: Points, dash: tuple[int, ...]) -> list[Points]:
    """Return the parts of a line that are seen of a dashed one, such as (7, 3)."""
    parts: list[list[tuple[float, float]]] = [[points[0]]]
    number, left = 0, float(dash[0])
    for (x, y), (end_x, end_y) in itertools.pairwise(points):
        length = math.hypot(end_x - x, end_y - y)
        done = 0.0
        while length - done > left:
            done += left
            place = (x + (end_x - x) * done / length, y + (end_y - y) * done / length)
            if number % 2 == 0:
                parts[-1].append(place)
            else:
                parts.append([place])
            number += 1
            left = float(dash[number % len(dash)])
        left -= length - done
        if number % 2 == 0:
            parts[-1].append((end_x, end_y))
    return [part for part in parts if len(part) > 1]
