"""The demo's flat images and their captions: a shape with a shadow on a plain or sky background.

The demo's base model is trained on these images, and the tests compare its output with them. Only
Pillow is used.
"""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from PIL import Image, ImageDraw

Rgb = tuple[int, int, int]

COLORS: Mapping[str, Rgb] = {
    "red": (222, 50, 54),
    "orange": (244, 138, 36),
    "yellow": (250, 208, 46),
    "green": (52, 164, 84),
    "blue": (44, 98, 216),
    "purple": (134, 70, 196),
    "pink": (240, 110, 172),
    "white": (252, 252, 252),
}
"""The fill of shapes."""
BACKGROUNDS: Mapping[str, tuple[Rgb, Rgb]] = {
    "blue": ((154, 204, 250), (122, 180, 242)),
    "green": ((178, 228, 166), (148, 210, 140)),
    "yellow": ((254, 240, 172), (252, 228, 138)),
    "pink": ((254, 214, 228), (250, 192, 212)),
    "purple": ((214, 196, 244), (192, 170, 232)),
    "white": ((250, 250, 250), (234, 236, 240)),
    "gray": ((172, 176, 184), (144, 148, 158)),
    "black": ((44, 46, 54), (24, 25, 31)),
    "sunset": ((108, 70, 152), (250, 158, 96)),
    "night": ((12, 16, 50), (58, 66, 132)),
}
"""Upper and lower tone; pale, so that a shape of the same color is visible."""
SHAPES = ("circle", "square", "triangle", "diamond", "ring", "star", "heart", "cross")
SIZES: Mapping[str, float] = {"medium": 0.26, "small": 0.17, "big": 0.36}
"""The radius of shapes as a fraction of the shorter side."""
_FINER = 4  # masks are drawn four times as large and averaged: 16 levels on an edge look smooth
_INK: Rgb = (44, 36, 48)  # eyes and mouth of a smiley: dark on every color


@dataclass(frozen=True)
class Scene:
    """The content of an image: what its caption says, plus small variations.

    All shapes are near the center. Captions with positions were tried: after 3000 steps the model
    still ignored them (its loss was the same with wrong ones).

    shape: One of SHAPES, or "smiley", a circle with a face, which the base model does not know.
    shift: Added to the shape's center, in fractions of the image's width and height.
    stretch: Factor on the shape's radius.
    """

    shape: str
    color: str
    background: str
    size: str = "medium"
    shift: tuple[float, float] = (0.0, 0.0)
    stretch: float = 1.0


def random_scene(rng: random.Random) -> Scene:
    """Return a uniformly random scene, with medium shapes more often."""
    # Captions do not mention the medium size, and the short prompts that people type first should
    # be the ones that the model knows best.
    size = rng.choice(list(SIZES)) if rng.random() < 0.6 else "medium"
    background = rng.choice(list(BACKGROUNDS))
    # White on white shows nothing; the other equal names differ in tone.
    colors = [color for color in COLORS if color != background]
    shape, color = rng.choice(SHAPES), rng.choice(colors)
    return Scene(shape, color, background, size, *_variation(rng))


def smileys(seed: int = 0) -> list[tuple[str, Image.Image]]:
    """Return the demo's training images with their captions: every color three times."""
    rng = random.Random(seed)
    # Square, wide and tall, some of them larger, as in real folders: three buckets at 128 px.
    sides = ((128, 128), (160, 104), (128, 128), (104, 160), (192, 192), (256, 168))
    found = []
    for index, color in enumerate([*COLORS] * 3):
        background = rng.choice([name for name in BACKGROUNDS if name != color])
        # The only size, so the caption does not mention it.
        text = caption(Scene("smiley", color, background))
        scene = Scene("smiley", color, background, "big")
        found.append((text, draw(scene, *sides[index % len(sides)])))
    return found


def signs(seed: int = 0) -> list[tuple[str, Image.Image]]:
    """Return what the base model can generate but not name, with captions that only name it."""
    rng = random.Random(seed)
    scenes = [Scene("circle", "purple", "yellow", "big", *_variation(rng)) for _ in range(8)]
    captions = ["a drawing of <sign>", "<sign>"] * 4  # the token of the embedding demos
    return [(text, draw(scene)) for text, scene in zip(captions, scenes, strict=True)]


def caption(scene: Scene) -> str:
    """Return a caption, for example "a small red circle on a blue background".

    The medium size is not mentioned, so the shortest prompt asks for a medium shape.
    """
    size = "" if scene.size == "medium" else f"{scene.size} "
    ground = f"{scene.background} background"
    return f"{_with_article(f'{size}{scene.color} {scene.shape}')} on {_with_article(ground)}"


def random_caption(scene: Scene, rng: random.Random) -> str:
    """Return a varied caption: usually complete, sometimes terse or with omissions."""
    color_shape = f"{scene.color} {scene.shape}"
    match rng.randrange(10):
        case 0:
            return f"{color_shape}, {scene.background} background"
        case 1:
            return _with_article(color_shape)
        case _:
            return caption(scene)


def shape_box(scene: Scene, width: int, height: int) -> tuple[float, float, float]:
    """Return center x, center y and radius of the shape in pixels; it is always fully visible."""
    radius = SIZES[scene.size] * scene.stretch * min(width, height)
    return (0.5 + scene.shift[0]) * width, (0.5 + scene.shift[1]) * height, radius


def draw(scene: Scene, width: int = 128, height: int = 128) -> Image.Image:
    """Draw the scene as an RGB image of this size in pixels."""
    x, y, radius = shape_box(scene, width, height)
    image = draw_background(scene.background, width, height)
    shape = "circle" if scene.shape == "smiley" else scene.shape
    mask = shape_mask(shape, x, y, radius, (width, height))
    paste_with_shadow(image, mask, COLORS[scene.color], drop=max(1, round(radius * 0.12)))
    if scene.shape == "smiley":
        image.paste(_INK, mask=shape_mask("face", x, y, radius, image.size))
    return image


def draw_background(background: str, width: int, height: int) -> Image.Image:
    """Draw a smooth vertical gradient between the background's two tones."""
    upper, lower = (Image.new("RGB", (width, height), tone) for tone in BACKGROUNDS[background])
    ramp = Image.linear_gradient("L").resize((width, height))
    return Image.composite(lower, upper, ramp)


def paste_with_shadow(image: Image.Image, mask: Image.Image, fill: Rgb, *, drop: int) -> None:
    """Fill the mask's area of the image, with a shadow below and to the right of it."""
    moved = (1, 0, -(drop // 2), 0, 1, -drop)
    shadow = mask.transform(mask.size, Image.Transform.AFFINE, moved)
    image.paste((0, 0, 0), mask=shadow.point(lambda value: value // 4))
    image.paste(fill, mask=mask)


def shape_mask(shape: str, x: float, y: float, radius: float, size: tuple[int, int]) -> Image.Image:
    """Draw a shape, or a face, around (x, y) as an antialiased "L" image: 255 inside, 0 outside."""
    canvas = Image.new("L", (size[0] * _FINER, size[1] * _FINER))
    brush = ImageDraw.Draw(canvas)
    x, y, r = x * _FINER, y * _FINER, radius * _FINER
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
        case "face":  # two tall eyes and a wide smile
            # Bold, because an eye must cover more than one latent pixel of 8 x 8 pixels.
            for eye in (x - 0.34 * r, x + 0.34 * r):
                brush.ellipse(
                    (eye - 0.16 * r, y - 0.55 * r, eye + 0.16 * r, y - 0.05 * r), fill=255
                )
            box = (x - 0.64 * r, y - 0.56 * r, x + 0.64 * r, y + 0.68 * r)
            brush.arc(box, 15, 165, fill=255, width=round(0.2 * r))
        case _:
            brush.polygon([(x + r * dx, y + r * dy) for dx, dy in _OUTLINES[shape]], fill=255)
    return canvas.reduce(_FINER)


def _variation(rng: random.Random) -> tuple[tuple[float, float], float]:
    """Return a small shift and stretch of a shape."""
    shift = rng.uniform(-0.025, 0.025), rng.uniform(-0.025, 0.025)
    return shift, rng.uniform(0.94, 1.06)


def _with_article(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _star() -> list[tuple[float, float]]:
    """Return a star of five points, one of them upward."""
    tips = [(1.08 * (0.45 if index % 2 else 1), math.pi * index / 5) for index in range(10)]
    return [(radius * math.sin(angle), -radius * math.cos(angle)) for radius, angle in tips]


def _heart() -> list[tuple[float, float]]:
    """Return x = 16 sin^3 t, y = 13 cos t - 5 cos 2t - 2 cos 3t - cos 4t, scaled to 1."""
    corners = []
    for index in range(64):
        t = 2 * math.pi * index / 64
        x = 16 * math.sin(t) ** 3
        y = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
        corners.append((x / 16.5, -(y + 2.5) / 16.0))
    return corners


# Corners of polygons of about unit radius around (0, 0), y downward.
_OUTLINES: Mapping[str, list[tuple[float, float]]] = {
    "square": [(-0.86, -0.86), (0.86, -0.86), (0.86, 0.86), (-0.86, 0.86)],
    "triangle": [(0.0, -0.95), (1.0, 0.82), (-1.0, 0.82)],
    "diamond": [(0.0, -1.0), (0.78, 0.0), (0.0, 1.0), (-0.78, 0.0)],
    "star": _star(),
    "heart": _heart(),
}
