"""Small pictures of what training shows of pictures. No Tk; for threads."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from onetrainer.dataset.buckets import Bucket, CropGeometry
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import ImageTransform

if TYPE_CHECKING:
    from PIL.Image import Image

_SHADE = 0.62
_LINE = 2
_FINE = 3


def transformed_thumbnail(item: Item, view: ImageTransform, side: int) -> "Image | None":
    """What is shown of a picture, its longer side of so many pixels; None if it cannot be read."""
    return _made(item, _scaled(view, side / max(view.bucket.width, view.bucket.height)))


def crop_overview(
    item: Item, view: ImageTransform, room: tuple[int, int], color: str
) -> "Image | None":
    """A whole picture, mirrored as it is shown, in which what is cut off is dark.

    room: the width and height to fit into, in pixels. color: of the line around what is shown.
    None if the picture cannot be read.
    """
    from PIL import Image, ImageDraw

    cut = view.geometry
    scale = min(room[0] / cut.width, room[1] / cut.height)
    width, height = max(1, round(cut.width * scale)), max(1, round(cut.height * scale))
    everything = CropGeometry(width, height, 0, 0, Bucket(width, height))
    whole = _made(item, ImageTransform(everything, view.flip, view.flip_vertical))
    if whole is None:
        return None
    # Drawn larger and made smaller: Pillow draws without smoothing.
    corners = [(x * scale * _FINE, y * scale * _FINE) for x, y in crop_corners(view)]
    size = (width * _FINE, height * _FINE)
    inside, line = Image.new("L", size, round(255 * (1 - _SHADE))), Image.new("L", size, 0)
    ImageDraw.Draw(inside).polygon(corners, fill=255)
    closed = [*corners, corners[0], corners[1]]
    ImageDraw.Draw(line).line(closed, fill=255, width=2 * _LINE * _FINE, joint="curve")
    small = [part.resize((width, height), Image.Resampling.BOX) for part in (inside, line)]
    dark = Image.composite(whole, Image.new("RGB", whole.size), small[0])
    return Image.composite(Image.new("RGB", whole.size, color), dark, small[1])


def crop_corners(view: ImageTransform) -> list[tuple[float, float]]:
    """The corners of what is shown, in pixels of the scaled and mirrored picture.

    The picture is turned about the middle of the cut, so in the picture the cut is turned back.
    """
    cut, bucket = view.geometry, view.bucket
    across, down = bucket.width / 2, bucket.height / 2
    x, y = cut.left + across, cut.top + down
    turn = math.radians(view.angle)
    cos, sin = math.cos(turn), math.sin(turn)
    ends = ((-across, -down), (across, -down), (across, down), (-across, down))
    return [(x + cos * a - sin * b, y + sin * a + cos * b) for a, b in ends]


def _scaled(view: ImageTransform, scale: float) -> ImageTransform:
    """The view in other pixels, so that no more is decoded than is looked at."""
    cut, bucket = view.geometry, view.bucket
    small = Bucket(max(1, round(bucket.width * scale)), max(1, round(bucket.height * scale)))
    wide = max(small.width, round(cut.width * scale))
    high = max(small.height, round(cut.height * scale))
    left = min(round(cut.left * scale), wide - small.width)
    top = min(round(cut.top * scale), high - small.height)
    return replace(view, geometry=CropGeometry(wide, high, left, top, small))


def _made(item: Item, view: ImageTransform) -> "Image | None":
    from onetrainer.images.image_file import ImageError
    from onetrainer.preview.contact_sheet import thumbnail

    try:
        return thumbnail(item, view, max(view.bucket.width, view.bucket.height))
    except ImageError:
        return None
