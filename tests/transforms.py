"""Image files and their transforms, for tests of pixels."""

import numpy as np
from PIL import Image

from modules.data.images import decode_pixels
from onetrainer.dataset.buckets import (
    NO_MAGNIFICATION,
    Bucket,
    CropGeometry,
    crop_range,
    scaled_size,
)
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import ImageTransform


def transform_of(size, bucket=None, magnification=NO_MAGNIFICATION, **changes):
    """Return the center crop of an image to a bucket, by default of its own size."""
    bucket = Bucket(*(bucket or size))
    wide, high = scaled_size(*size, bucket, magnification)
    left = sum(crop_range(wide, bucket, magnification.angle, is_across=True)) // 2
    top = sum(crop_range(high, bucket, magnification.angle, is_across=False)) // 2
    return ImageTransform(
        CropGeometry(wide, high, left, top, bucket), angle=magnification.angle, **changes
    )


def load_pixels(item, transform):
    """Return the pixels of an item's file after a transform."""
    with item.path.open("rb") as file:
        return decode_pixels(item, transform, file)


def pixels_of(item, bucket=None, magnification=NO_MAGNIFICATION, **changes):
    """Return the pixels of an item after `transform_of`."""
    size = (item.width, item.height)
    return load_pixels(item, transform_of(size, bucket, magnification, **changes))


def saved(folder, image, suffix="png", **options):
    """Save an image and return its item."""
    path = folder / f"a.{suffix}"
    image.save(path, **options)
    return Item(path, ("",), *image.size)


def color(pixels, x=0, y=0):
    """Return a pixel of a (3, H, W) image in 0 to 255."""
    return [round(float(value), 3) for value in (pixels[:, y, x] + 1) * 127.5]


def noise(size, seed=0):
    """Return an image of random pixels."""
    dice = np.random.default_rng(seed)
    return Image.fromarray(dice.integers(0, 256, (*size[::-1], 3), dtype=np.uint8))


def smooth(size, seed=0):
    """Return a smooth image, for which filters agree."""
    return noise((6, 5), seed).resize(size, Image.Resampling.BICUBIC)
