"""Recognition of what a demo image shows, by palette and outline.

Independent of the model: works for any image in the style of onetrainer.demo.images, which the
tests use to check it on drawn images before it judges generated ones.
"""

from dataclasses import dataclass

import numpy
from numpy.typing import NDArray
from PIL import Image

from onetrainer.demo.images import (
    BACKGROUNDS,
    COLORS,
    SHAPES,
    Background,
    Color,
    Scene,
    Shape,
    background_rgb,
    shape_mask,
    shape_rgb,
)

Array = NDArray[numpy.float64]
Mask = NDArray[numpy.bool_]

CORNER = 6  # px; corners are free of shapes of any size
FOREGROUND_DISTANCE = 34.0  # RGB distance from background and shadow of a foreground pixel
SHADOW = 0.75  # shadows keep three quarters of the background's light
MIN_PIXELS = 80  # of a shape; less is noise


@dataclass(frozen=True)
class Recognition:
    """What an image shows; `color` and `shape` are None without a shape."""

    background: Background
    color: Color | None
    shape: Shape | None

    def matches(self, scene: Scene) -> bool:
        """Return whether background, color and shape are those of the scene."""
        return (self.background, self.color, self.shape) == (
            scene.background,
            scene.color,
            scene.shape,
        )


def recognize(image: Image.Image) -> Recognition:
    """Recognize what the image shows."""
    pixels = numpy.asarray(image.convert("RGB"), dtype=numpy.float64)  # (H, W, 3)
    upper = _median(pixels[:CORNER, :CORNER], pixels[:CORNER, -CORNER:])
    lower = _median(pixels[-CORNER:, :CORNER], pixels[-CORNER:, -CORNER:])
    background = _nearest_background(upper, lower)
    mask = _foreground(pixels, upper, lower)
    if mask.sum() < MIN_PIXELS:
        return Recognition(background, None, None)
    tone = numpy.median(pixels[mask], axis=0)
    color = min(COLORS, key=lambda color: float(numpy.linalg.norm(tone - shape_rgb(color))))
    return Recognition(background, color, _nearest_shape(mask))


def _median(*patches: Array) -> Array:
    """Return the tone, (3,), of some areas of (h, w, 3) pixels."""
    pixels = numpy.concatenate([patch.reshape(-1, 3) for patch in patches])
    tone: Array = numpy.median(pixels, axis=0)
    return tone


def _nearest_background(upper: Array, lower: Array) -> Background:
    def distance(background: Background) -> float:
        tones = background_rgb(background)
        return float(numpy.linalg.norm(upper - tones[0]) + numpy.linalg.norm(lower - tones[1]))

    return min(BACKGROUNDS, key=distance)


def _foreground(pixels: Array, upper: Array, lower: Array) -> Mask:
    """Return (H, W), which pixels are neither background nor its shadow."""
    position = numpy.linspace(0, 1, len(pixels))[:, None, None]
    ground = upper * (1 - position) + lower * position
    distances = [numpy.linalg.norm(pixels - tone, axis=2) for tone in (ground, ground * SHADOW)]
    mask: Mask = numpy.minimum(*distances) > FOREGROUND_DISTANCE
    return mask


def _nearest_shape(mask: Mask) -> Shape:
    """Return the shape whose outline overlaps the mask best, both stretched to one box."""
    outline = _in_box(mask)

    def overlap(shape: Shape) -> float:
        template = _in_box(numpy.asarray(shape_mask(shape, 64, 64, 40, (128, 128))) > 127)
        return float((outline & template).sum() / (outline | template).sum())

    return max(SHAPES, key=overlap)


def _in_box(mask: Mask) -> Mask:
    """Return the mask's bounding box, stretched to (64, 64)."""
    rows, columns = _span(mask.sum(axis=1)), _span(mask.sum(axis=0))
    cut = Image.fromarray(mask[rows, columns])
    return numpy.asarray(cut.resize((64, 64)))


def _span(counts: NDArray[numpy.int64]) -> slice:
    """Return the range of rows (or columns) with more than a stray pixel."""
    filled = numpy.flatnonzero(counts > 1)
    return slice(filled[0], filled[-1] + 1) if len(filled) else slice(0, len(counts))
