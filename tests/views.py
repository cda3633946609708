"""Pictures in files, and views of them, for tests of what becomes of their pixels."""

import numpy as np
from PIL import Image

from modules.data.images import load_pixels
from onetrainer.dataset.buckets import (
    NO_MAGNIFICATION,
    Bucket,
    CropGeometry,
    crop_range,
    scaled_size,
)
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import ImageTransform


def view_of(size, bucket=None, closer=NO_MAGNIFICATION, **changes):
    """A picture of a size in a bucket, that of its own size by default, cut at the center."""
    bucket = Bucket(*(bucket or size))
    wide, high = scaled_size(*size, bucket, closer)
    left = sum(crop_range(wide, bucket, closer.angle, is_across=True)) // 2
    top = sum(crop_range(high, bucket, closer.angle, is_across=False)) // 2
    return ImageTransform(
        CropGeometry(wide, high, left, top, bucket), angle=closer.angle, **changes
    )


def pixels_of(item, bucket=None, closer=NO_MAGNIFICATION, **changes):
    """As `load_pixels`, in a view like that."""
    size = (item.width, item.height)
    return load_pixels(item, view_of(size, bucket, closer, **changes))


def saved(folder, image, suffix="png", **options):
    """The item of a picture that is saved."""
    path = folder / f"a.{suffix}"
    image.save(path, **options)
    return Item(path, ("",), *image.size)


def color(pixels, x=0, y=0):
    """A pixel of a (3, H, W) picture, back in 0 to 255."""
    return [round(float(value), 3) for value in (pixels[:, y, x] + 1) * 127.5]


def noise(size, seed=0):
    """Of every color, each pixel by itself."""
    dice = np.random.default_rng(seed)
    return Image.fromarray(dice.integers(0, 256, (*size[::-1], 3), dtype=np.uint8))


def smooth(size, seed=0):
    """Changes slowly, so that filters agree about it."""
    return noise((6, 5), seed).resize(size, Image.Resampling.BICUBIC)
