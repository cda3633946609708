"""The demo's flat images: a shape with a shadow on a plain or sky background.

The demo's base model is trained on these images, and the tests compare its output with them. Only
Pillow is used.
"""

import math
import random
from dataclasses import dataclass
from typing import Literal, get_args

from PIL import Image, ImageDraw

Shape = Literal["circle", "square", "triangle", "diamond", "ring", "star", "heart", "cross"]
Color = Literal["red", "orange", "yellow", "green", "blue", "purple", "pink", "white"]
Background = Literal[
    "blue", "green", "yellow", "pink", "purple", "white", "gray", "black", "sunset", "night"
]
Size = Literal["medium", "small", "big"]

SHAPES: tuple[Shape, ...] = get_args(Shape)
COLORS: tuple[Color, ...] = get_args(Color)
BACKGROUNDS: tuple[Background, ...] = get_args(Background)
SIZES: tuple[Size, ...] = get_args(Size)

Rgb = tuple[int, int, int]


def shape_rgb(color: Color) -> Rgb:
    """Return the fill color of shapes of this color name."""
    match color:
        case "red":
            return (222, 50, 54)
        case "orange":
            return (244, 138, 36)
        case "yellow":
            return (250, 208, 46)
        case "green":
            return (52, 164, 84)
        case "blue":
            return (44, 98, 216)
        case "purple":
            return (134, 70, 196)
        case "pink":
            return (240, 110, 172)
        case "white":
            return (252, 252, 252)


def background_rgb(background: Background) -> tuple[Rgb, Rgb]:
    """Return the upper and lower tone; pale, so that a shape of the same color is visible."""
    match background:
        case "blue":
            return (154, 204, 250), (122, 180, 242)
        case "green":
            return (178, 228, 166), (148, 210, 140)
        case "yellow":
            return (254, 240, 172), (252, 228, 138)
        case "pink":
            return (254, 214, 228), (250, 192, 212)
        case "purple":
            return (214, 196, 244), (192, 170, 232)
        case "white":
            return (250, 250, 250), (234, 236, 240)
        case "gray":
            return (172, 176, 184), (144, 148, 158)
        case "black":
            return (44, 46, 54), (24, 25, 31)
        case "sunset":
            return (108, 70, 152), (250, 158, 96)
        case "night":
            return (12, 16, 50), (58, 66, 132)


@dataclass(frozen=True)
class Scene:
    """The content of an image: what its caption says, plus small variations.

    All shapes are near the center. Captions with positions were tried: after 3000 steps the model
    still ignored them (its loss was the same with wrong ones).

    shift: Added to the shape's center, in fractions of the image's width and height.
    stretch: Factor on the shape's radius.
    """

    shape: Shape
    color: Color
    background: Background
    size: Size = "medium"
    shift: tuple[float, float] = (0.0, 0.0)
    stretch: float = 1.0


def random_scene(rng: random.Random) -> Scene:
    """Return a uniformly random scene, with medium shapes more often."""
    # Captions do not mention the medium size, and the short prompts that people type first should
    # be the ones that the model knows best.
    size = rng.choice(SIZES) if rng.random() < 0.6 else "medium"
    background = rng.choice(BACKGROUNDS)
    # White on white shows nothing; the other equal names differ in tone.
    colors = [color for color in COLORS if color != background]
    return Scene(
        shape=rng.choice(SHAPES),
        color=rng.choice(colors),
        background=background,
        size=size,
        shift=(rng.uniform(-0.025, 0.025), rng.uniform(-0.025, 0.025)),
        stretch=rng.uniform(0.94, 1.06),
    )


def shape_box(scene: Scene, width: int, height: int) -> tuple[float, float, float]:
    """Return center x, center y and radius of the shape in pixels; it is always fully visible."""
    fraction = {"small": 0.17, "medium": 0.26, "big": 0.36}[scene.size] * scene.stretch
    radius = fraction * min(width, height)
    center_x = (0.5 + scene.shift[0]) * width
    center_y = (0.5 + scene.shift[1]) * height
    return center_x, center_y, radius


def draw(scene: Scene, width: int = 128, height: int = 128) -> Image.Image:
    """Draw the scene as an RGB image of this size in pixels."""
    center_x, center_y, radius = shape_box(scene, width, height)
    image = draw_background(scene.background, width, height)
    mask = shape_mask(scene.shape, center_x, center_y, radius, (width, height))
    paste_with_shadow(image, mask, shape_rgb(scene.color), drop=max(1, round(radius * 0.12)))
    return image


def draw_background(background: Background, width: int, height: int) -> Image.Image:
    """Draw a smooth vertical gradient between the background's two tones."""
    upper, lower = background_rgb(background)
    ramp = Image.linear_gradient("L").resize((width, height))
    return Image.composite(
        Image.new("RGB", (width, height), lower), Image.new("RGB", (width, height), upper), ramp
    )


def paste_with_shadow(image: Image.Image, mask: Image.Image, fill: Rgb, *, drop: int) -> None:
    """Fill the mask's area of the image, with a shadow below and to the right of it."""
    moved = (1, 0, -(drop // 2), 0, 1, -drop)
    shadow = mask.transform(mask.size, Image.Transform.AFFINE, moved)
    shadow = shadow.point(lambda value: value // 4)
    image.paste((0, 0, 0), mask=shadow)
    image.paste(fill, mask=mask)


def shape_mask(
    shape: Shape, center_x: float, center_y: float, radius: float, size: tuple[int, int]
) -> Image.Image:
    """Draw the shape as an antialiased "L" image: 255 inside, 0 outside."""
    finer = 4  # drawn four times as large and averaged: 16 levels on an edge look smooth
    canvas = Image.new("L", (size[0] * finer, size[1] * finer))
    brush = ImageDraw.Draw(canvas)
    x, y, r = center_x * finer, center_y * finer, radius * finer
    match shape:
        case "circle":
            brush.ellipse((x - r, y - r, x + r, y + r), fill=255)
        case "ring":
            brush.ellipse((x - r, y - r, x + r, y + r), fill=255)
            brush.ellipse((x - r * 0.55, y - r * 0.55, x + r * 0.55, y + r * 0.55), fill=0)
        case "cross":
            arm = r * 0.34
            brush.rectangle((x - r, y - arm, x + r, y + arm), fill=255)
            brush.rectangle((x - arm, y - r, x + arm, y + r), fill=255)
        case _:
            brush.polygon([(x + r * dx, y + r * dy) for dx, dy in _outline(shape)], fill=255)
    return canvas.reduce(finer)


def _outline(shape: Shape) -> list[tuple[float, float]]:
    """Return the corners of a polygon of about unit radius around (0, 0), y downward."""
    match shape:
        case "square":
            return [(-0.86, -0.86), (0.86, -0.86), (0.86, 0.86), (-0.86, 0.86)]
        case "triangle":
            return [(0.0, -0.95), (1.0, 0.82), (-1.0, 0.82)]
        case "diamond":
            return [(0.0, -1.0), (0.78, 0.0), (0.0, 1.0), (-0.78, 0.0)]
        case "star":
            return _star(points=5, inner=0.45)
        case "heart":
            return _heart()
        case _:
            raise ValueError(f"{shape} is not drawn as a polygon")


def _star(*, points: int, inner: float) -> list[tuple[float, float]]:
    """Return a star with one tip upward; inner: radius of the notches between its tips."""
    corners = []
    for index in range(2 * points):
        radius = 1.08 if index % 2 == 0 else 1.08 * inner
        angle = math.pi * index / points
        corners.append((radius * math.sin(angle), -radius * math.cos(angle)))
    return corners


def _heart() -> list[tuple[float, float]]:
    """Return x = 16 sin^3 t, y = 13 cos t - 5 cos 2t - 2 cos 3t - cos 4t, scaled to 1."""
    corners = []
    for index in range(64):
        t = 2 * math.pi * index / 64
        x = 16 * math.sin(t) ** 3
        y = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
        corners.append((x / 16.5, -(y + 2.5) / 16.0))
    return corners
