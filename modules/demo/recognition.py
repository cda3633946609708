"""Recognizes what one of the demo's pictures shows, by palette and outline.

Independent of the model: true for any picture in the style of onetrainer.demo.images, which the
tests use to check the recognizer on drawn pictures before it judges generated ones.
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

CORNER = 6  # px; corners are free of shapes whatever their size
FOREGROUND_DISTANCE = 34.0  # RGB distance from which a pixel is no longer background or its shadow
SHADOW = 0.75  # shadows keep three quarters of the background's light
FEWEST_PIXELS = 80  # less is noise, not a shape


@dataclass(frozen=True)
class Recognition:
    """What a picture shows; without a shape the other two are None."""

    background: Background
    color: Color | None
    shape: Shape | None

    def agrees(self, scene: Scene) -> bool:
        """Whether background, color and shape are the asked ones."""
        return (self.background, self.color, self.shape) == (
            scene.background,
            scene.color,
            scene.shape,
        )


def look(image: Image.Image) -> Recognition:
    """What the picture shows."""
    pixels = numpy.asarray(image.convert("RGB"), dtype=numpy.float64)  # (H, W, 3)
    upper = _median(pixels[:CORNER, :CORNER], pixels[:CORNER, -CORNER:])
    lower = _median(pixels[-CORNER:, :CORNER], pixels[-CORNER:, -CORNER:])
    background = _nearest_background(upper, lower)
    mask = _foreground(pixels, upper, lower)
    if mask.sum() < FEWEST_PIXELS:
        return Recognition(background, None, None)
    color = _nearest_color(numpy.median(pixels[mask], axis=0))
    return Recognition(background, color, _nearest_shape(mask))


def _median(*patches: Array) -> Array:
    """The tone, (3,), of some areas of (h, w, 3) pixels."""
    pixels = numpy.concatenate([patch.reshape(-1, 3) for patch in patches])
    tone: Array = numpy.median(pixels, axis=0)
    return tone


def _nearest_background(upper: Array, lower: Array) -> Background:
    def distance(background: Background) -> float:
        tones = background_rgb(background)
        return float(numpy.linalg.norm(upper - tones[0]) + numpy.linalg.norm(lower - tones[1]))

    return min(BACKGROUNDS, key=distance)


def _nearest_color(tone: Array) -> Color:
    return min(COLORS, key=lambda color: float(numpy.linalg.norm(tone - shape_rgb(color))))


def _foreground(pixels: Array, upper: Array, lower: Array) -> Mask:
    """(H, W): pixels that are neither background nor its shadow."""
    share = numpy.linspace(0, 1, len(pixels))[:, None, None]
    ground = upper * (1 - share) + lower * share
    distances = [numpy.linalg.norm(pixels - tone, axis=2) for tone in (ground, ground * SHADOW)]
    mask: Mask = numpy.minimum(*distances) > FOREGROUND_DISTANCE
    return mask


def _nearest_shape(mask: Mask) -> Shape:
    """The shape whose outline overlaps the mask best, both stretched to one box."""
    found = _in_box(mask)

    def overlap(shape: Shape) -> float:
        template = _in_box(numpy.asarray(shape_mask(shape, 64, 64, 40, (128, 128))) > 127)
        return float((found & template).sum() / (found | template).sum())

    return max(SHAPES, key=overlap)


def _in_box(mask: Mask) -> Mask:
    """The mask's bounding box, stretched to (64, 64)."""
    rows, columns = _span(mask.sum(axis=1)), _span(mask.sum(axis=0))
    cut = Image.fromarray(mask[rows, columns])
    return numpy.asarray(cut.resize((64, 64)))


def _span(counts: NDArray[numpy.int64]) -> slice:
    """From the first to the last row (or column) with more than a stray pixel."""
    filled = numpy.flatnonzero(counts > 1)
    return slice(filled[0], filled[-1] + 1) if len(filled) else slice(0, len(counts))
