"""Thumbnails of transformed images, computed in threads."""

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
_SUPERSAMPLING = 3


def transformed_thumbnail(item: Item, transform: ImageTransform, side: int) -> "Image | None":
    """Return an image as it is trained on, its longer side `side` pixels; None if unreadable."""
    return _load(
        item, _scaled(transform, side / max(transform.bucket.width, transform.bucket.height))
    )


def crop_overview(
    item: Item, transform: ImageTransform, box: tuple[int, int], color: str
) -> "Image | None":
    """Return a whole image, flipped as in training, with the cropped parts darkened.

    Args:
        item: The image.
        transform: Its transform.
        box: Width and height to fit into, in pixels.
        color: Outline of the crop.

    Returns:
        None if the image cannot be read.
    """
    from PIL import Image, ImageDraw

    crop = transform.geometry
    scale = min(box[0] / crop.width, box[1] / crop.height)
    width, height = max(1, round(crop.width * scale)), max(1, round(crop.height * scale))
    full_crop = CropGeometry(width, height, 0, 0, Bucket(width, height))
    whole = _load(item, ImageTransform(full_crop, transform.flip, transform.flip_vertical))
    if whole is None:
        return None
    # Drawn larger and scaled down, because Pillow does not antialias.
    corners = [
        (x * scale * _SUPERSAMPLING, y * scale * _SUPERSAMPLING) for x, y in crop_corners(transform)
    ]
    size = (width * _SUPERSAMPLING, height * _SUPERSAMPLING)
    mask, line = Image.new("L", size, round(255 * (1 - _SHADE))), Image.new("L", size, 0)
    ImageDraw.Draw(mask).polygon(corners, fill=255)
    closed = [*corners, corners[0], corners[1]]
    ImageDraw.Draw(line).line(closed, fill=255, width=2 * _LINE * _SUPERSAMPLING, joint="curve")
    small = [part.resize((width, height), Image.Resampling.BOX) for part in (mask, line)]
    dark = Image.composite(whole, Image.new("RGB", whole.size), small[0])
    return Image.composite(Image.new("RGB", whole.size, color), dark, small[1])


def crop_corners(transform: ImageTransform) -> list[tuple[float, float]]:
    """Return the corners of the crop, in pixels of the scaled and flipped image.

    The image is rotated about the center of the crop, so the crop is rotated back here.
    """
    crop, bucket = transform.geometry, transform.bucket
    across, down = bucket.width / 2, bucket.height / 2
    x, y = crop.left + across, crop.top + down
    angle = math.radians(transform.angle)
    cos, sin = math.cos(angle), math.sin(angle)
    ends = ((-across, -down), (across, -down), (across, down), (-across, down))
    return [(x + cos * a - sin * b, y + sin * a + cos * b) for a, b in ends]


def _scaled(transform: ImageTransform, scale: float) -> ImageTransform:
    """Return the transform at another resolution, so that no more is decoded than needed."""
    crop, bucket = transform.geometry, transform.bucket
    small = Bucket(max(1, round(bucket.width * scale)), max(1, round(bucket.height * scale)))
    wide = max(small.width, round(crop.width * scale))
    high = max(small.height, round(crop.height * scale))
    left = min(round(crop.left * scale), wide - small.width)
    top = min(round(crop.top * scale), high - small.height)
    return replace(transform, geometry=CropGeometry(wide, high, left, top, small))


def _load(item: Item, transform: ImageTransform) -> "Image | None":
    from onetrainer.images.image_file import ImageError
    from onetrainer.preview.contact_sheet import thumbnail

    try:
        return thumbnail(item, transform, max(transform.bucket.width, transform.bucket.height))
    except ImageError:
        return None
