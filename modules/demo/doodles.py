"""Busy random drawings for the demo's autoencoder: scenes with small marks scattered over them.

The autoencoder must be able to show more than the base model can generate, because the demo then
trains the base on something new (a face has small dark eyes and a thin mouth). So it is trained on
dots, lines, arcs and many shapes of many colors, cropped at random places.
"""

import random

from PIL import Image, ImageDraw

from onetrainer.demo.images import (
    SHAPES,
    Rgb,
    draw_background,
    paste_with_shadow,
    random_scene,
    shape_mask,
    shape_rgb,
)

SIDE = 128


def doodle(rng: random.Random) -> Image.Image:
    """Draw an image of SIDE x SIDE pixels with one or two shapes and up to six small marks."""
    image = draw_background(random_scene(rng).background, SIDE, SIDE)
    for _ in range(rng.randint(1, 2)):
        radius = rng.uniform(0.1, 0.4) * SIDE
        center = rng.uniform(0, SIDE), rng.uniform(0, SIDE)
        mask = shape_mask(rng.choice(SHAPES), *center, radius, image.size)
        paste_with_shadow(image, mask, _tone(rng), drop=max(1, round(radius * 0.12)))
    marks = Image.new("L", (SIDE * 4, SIDE * 4))
    for _ in range(rng.randint(0, 6)):
        _mark(ImageDraw.Draw(marks), rng)
    image.paste(_tone(rng), mask=marks.reduce(4))
    return image


def crop(image: Image.Image, side: int, rng: random.Random) -> Image.Image:
    """Crop a square at a random place."""
    left, top = rng.randint(0, SIDE - side), rng.randint(0, SIDE - side)
    return image.crop((left, top, left + side, top + side))


def _tone(rng: random.Random) -> Rgb:
    """Return a palette color two times out of three, else near black or any color."""
    match rng.randrange(5):
        case 0:
            return (rng.randint(10, 60), rng.randint(10, 60), rng.randint(10, 60))
        case 1:
            return (rng.randint(0, 255), rng.randint(0, 255), rng.randint(0, 255))
        case _:
            return shape_rgb(random_scene(rng).color)


def _mark(brush: ImageDraw.ImageDraw, rng: random.Random) -> None:
    """Draw a dot, a line or an arc, at four times the image's scale."""
    x, y = rng.uniform(0, SIDE * 4), rng.uniform(0, SIDE * 4)
    size = rng.uniform(8, 32)
    width = rng.randint(6, 16)
    match rng.randrange(3):
        case 0:
            tall = rng.uniform(0.8, 1.6)
            brush.ellipse((x - size, y - size * tall, x + size, y + size * tall), fill=255)
        case 1:
            end = rng.uniform(0, SIDE * 4), rng.uniform(0, SIDE * 4)
            brush.line((x, y, *end), fill=255, width=width)
        case _:
            start = rng.uniform(0, 360)
            reach = size * 3
            box = (x - reach, y - reach, x + reach, y + reach)
            brush.arc(box, start, start + rng.uniform(60, 300), fill=255, width=width)
