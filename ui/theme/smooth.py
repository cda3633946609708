"""Small antialiased images, because Tk draws lines and circles without smoothing."""

import math
import tkinter as tk
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

# A shape at a point: its signed distance in pixels (negative inside), and its color.
Layer = tuple[float, str]
Rows = list[list[str]]

_CHEVRON = 4.0
_STROKE = 0.8
_MIXED = 4096  # colors that are kept: corners have the same few


def paint(
    width: int,
    height: int,
    ground: str,
    layers: Callable[[float, float], list[Layer]],
    *,
    is_mirrored: bool = False,
) -> Rows:
    """Return the colors of an image's pixels, antialiased at the edges of shapes.

    Args:
        width: In pixels.
        height: In pixels.
        ground: Color of the background.
        layers: Returns the shapes at a point, the lowest first; (0, 0) is the center.
        is_mirrored: Whether the lower half mirrors the upper one, which alone is computed then.
    """

    def color(x: float, y: float) -> str:
        mixed = ground
        for distance, above in layers(x, y):
            mixed = mix(mixed, above, min(max(0.5 - distance, 0.0), 1.0))
        return mixed

    xs = [place + 0.5 - width / 2 for place in range(width)]
    ys = [place + 0.5 - height / 2 for place in range(height)]
    if not is_mirrored:
        return [[color(x, y) for x in xs] for y in ys]
    above = [[color(x, y) for x in xs] for y in ys[: -(-height // 2)]]
    return above + above[: height // 2][::-1]


def make(root: tk.Misc, width: int, height: int) -> str:
    """Create a transparent image that lives as long as the window; return its name.

    Not tkinter's PhotoImage, because Python may delete one in another thread, where Tk crashes.
    """
    return str(root.tk.call("image", "create", "photo", "-width", width, "-height", height))


def fill(root: tk.Misc, image: str, rows: Rows) -> None:
    """Put pixels into the center of an image; the margin stays transparent."""
    width, height = (int(root.tk.call("image", side, image)) for side in ("width", "height"))
    place = (width - len(rows[0])) // 2, (height - len(rows)) // 2
    lines = " ".join("{" + " ".join(row) + "}" for row in rows)
    root.tk.call(image, "put", lines, "-to", *place)


def chevron(size: int, scale: float, *, color: str, ground: str) -> Rows:
    """Return an arrow that points down, in a square."""
    reach, half = _CHEVRON * scale, _CHEVRON * scale / 2

    def layers(x: float, y: float) -> list[Layer]:
        # Nearest point of the stroke from (0, half) up to (reach, -half), mirrored for x < 0.
        along = (abs(x) * reach - (y - half) * reach) / (2 * reach * reach)
        fraction = min(max(along, 0.0), 1.0)
        away = math.hypot(abs(x) - fraction * reach, y - half + fraction * reach)
        return [(away - _STROKE * scale, color)]

    return paint(size, size, ground, layers)


def undo_arrow(size: int, scale: float, *, color: str, ground: str) -> Rows:
    """Return an arrow that turns back to the left, in a square."""
    radius, stroke, head = 4.5 * scale, 0.7 * scale, 3.0 * scale

    def layers(x: float, y: float) -> list[Layer]:
        # Three quarters of a circle; the missing one, on the upper left, has the head at its end.
        is_open = x < 0 and y < 0
        ends = min(math.hypot(x, y + radius), math.hypot(x + radius, y))
        ring = ends if is_open else abs(math.hypot(x, y) - radius)
        # The head: a triangle with its tip to the left of the circle's top.
        left, up = x + head, y + radius
        tip = max((abs(up) - left * 0.7) / math.hypot(1, 0.7), left - head - stroke)
        return [(ring - stroke, color), (tip, color)]

    return paint(size, size, ground, layers)


def area(
    width: int,
    height: int,
    line: Sequence[tuple[float, float]],
    *,
    thickness: float,
    foot: float,
    colors: tuple[str, str, str],
) -> Rows:
    """Return a curve filled down to a base line.

    Args:
        width: In pixels.
        height: In pixels.
        line: Points of the curve from left to right, in pixels from the upper left corner.
        thickness: Of the curve, in pixels.
        foot: Height of the base line, in pixels from the top.
        colors: Of the background, the area and the curve.
    """
    ground, below, above = colors
    columns = []
    for x in range(width):
        top, column = _height_at(line, x + 0.5), [ground] * height
        if top is not None:
            first, end = max(0, math.ceil(top)), max(0, min(height, math.floor(foot)))
            column[first:end] = [below] * (end - first)
            for y in (first - 1, end):  # covered in part
                fraction = min(y + 1 - top, foot - y, 1.0)
                if 0 <= y < height and fraction > 0:
                    column[y] = mix(ground, below, fraction)
        columns.append(column)
    rows = [list(row) for row in zip(*columns, strict=True)]
    for (x, y), fraction in _covered(line, thickness / 2).items():
        if 0 <= x < width and 0 <= y < height:
            rows[y][x] = mix(rows[y][x], above, fraction)
    return rows


def _height_at(line: Sequence[tuple[float, float]], x: float) -> float | None:
    """Return the height of a line at x; None outside of it."""
    for (left, start), (right, end) in pairwise(line):
        if left <= x <= right and left < right:
            return start + (end - start) * (x - left) / (right - left)
    return None


def _covered(line: Sequence[tuple[float, float]], reach: float) -> dict[tuple[int, int], float]:
    """Return how much of each pixel a line of width 2 · reach covers."""
    coverage: dict[tuple[int, int], float] = {}
    for (left, start), (right, end) in pairwise(line):
        across, down = right - left, end - start
        length = across * across + down * down
        xs = range(math.floor(left - reach), math.ceil(right + reach) + 1)
        ys = range(math.floor(min(start, end) - reach), math.ceil(max(start, end) + reach) + 1)
        for x in xs:
            for y in ys:
                to_x, to_y = x + 0.5 - left, y + 0.5 - start
                along = (to_x * across + to_y * down) / length if length else 0.0
                along = min(max(along, 0.0), 1.0)
                away = math.hypot(to_x - along * across, to_y - along * down)
                fraction = min(reach + 0.5 - away, 1.0)
                if fraction > coverage.get((x, y), 0.0):
                    coverage[x, y] = fraction
    return coverage


@lru_cache(_MIXED)
def mix(below: str, above: str, fraction: float) -> str:
    """Return a color between two: 0 is the one below, 1 the one above."""
    if fraction in (0.0, 1.0):
        return above if fraction else below
    pairs = [(int(below[at : at + 2], 16), int(above[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(low + (high - low) * fraction):02x}" for low, high in pairs)
