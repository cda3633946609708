"""Masks of what a model found, as a person wants them. Pillow is imported when one is made."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer.images.image_file import (
    open_image,
    orientation,
    upright_size,
)
from onetrainer.jobs.caption_request import MaskWriting

if TYPE_CHECKING:
    from PIL.Image import Image


_BEYOND = 0.1587
"""Of an edge that is blurred, the value one standard deviation outside: 1 - Φ(1). From there on
the area is that much larger, with round corners."""


def mask_image(found: "Image", size: tuple[int, int], writing: MaskWriting) -> "Image":
    """Return the mask of an image of some size, from what a model found in its own size."""
    from PIL import Image, ImageFilter, ImageOps

    mask = found.convert("L").resize(size, Image.Resampling.BICUBIC)
    shorter = min(size) / 100
    if writing.threshold:
        mask = _black_and_white(mask, writing.threshold)
    if by := abs(writing.grow) * shorter:
        share = 1 - _BEYOND if writing.grow < 0 else _BEYOND
        mask = _black_and_white(mask.filter(ImageFilter.GaussianBlur(by)), share)
    if writing.feather:
        mask = mask.filter(ImageFilter.GaussianBlur(writing.feather * shorter))
    return ImageOps.invert(mask) if writing.invert else mask


def mask_bytes(found: Path, image: Path, writing: MaskWriting) -> bytes:
    """Return the mask of an image file as PNG. Raises ImageError if a file cannot be read."""
    with image.open("rb") as file, open_image(file, image) as opened:
        size = upright_size(opened, orientation(opened, file))
    with found.open("rb") as file, open_image(file, found) as opened:
        mask = mask_image(opened, size, writing)
    written = io.BytesIO()
    mask.save(written, "PNG")
    return written.getvalue()


def _black_and_white(mask: "Image", least: float) -> "Image":
    return mask.point([255 if value >= least * 255 else 0 for value in range(256)])
