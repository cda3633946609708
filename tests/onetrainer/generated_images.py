"""Random images with the statistics of photographs, and changes of them."""

import io
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFilter


def leaves(seed, size=384):
    """Return overlapping discs and squares of all sizes, sharp and with a little grain.

    Such "dead leaves" have the power spectrum of photographs (Lee, Mumford and Huang 2001).
    """
    return _leaves(seed, size).copy()


@cache
def _leaves(seed, size):
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (size, size))
    draw = ImageDraw.Draw(image)
    for _ in range(500):
        chance = rng.random()
        radius = ((1 - chance) / (size * 0.01) ** 2 + chance / (size * 0.35) ** 2) ** -0.5
        x, y = rng.random(2) * size
        box = (x - radius, y - radius, x + radius, y + radius)
        form = draw.ellipse if rng.random() < 0.5 else draw.rectangle
        form(box, fill=tuple(rng.integers(10, 245, 3).tolist()))
    soft = np.asarray(image.filter(ImageFilter.GaussianBlur(0.5))).astype(np.float64)
    grainy = soft + rng.normal(0, 2, soft.shape)
    return Image.fromarray(np.clip(grainy, 0, 255).astype(np.uint8))


def as_jpeg(image, quality):
    """Return an image after JPEG compression."""
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return Image.open(io.BytesIO(file.getvalue())).convert("RGB")


def scaled(image, factor, way=Image.Resampling.LANCZOS):
    """Return an image scaled by a factor."""
    return image.resize([round(side * factor) for side in image.size], way)


def enlarged(image, factor, way=Image.Resampling.BICUBIC):
    """Return an image of the same size with the detail of a smaller one."""
    return scaled(image, 1 / factor).resize(image.size, way)


def cut(image, chance):
    """Return an image cropped at the right and bottom by a fraction."""
    width, height = image.size
    return image.crop((0, 0, round(width * (1 - chance)), round(height * (1 - chance))))
