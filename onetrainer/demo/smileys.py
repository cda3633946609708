"""The demo's training images: smiling faces, which the demo's base model cannot generate."""

import random
from dataclasses import dataclass

from PIL import Image, ImageDraw

from onetrainer.demo.captions import article
from onetrainer.demo.images import (
    BACKGROUNDS,
    COLORS,
    Background,
    Color,
    Rgb,
    Scene,
    draw,
    shape_box,
)

WORD = "smiley"
COUNT = 24
INK: Rgb = (44, 36, 48)  # eyes and mouth: dark on every color

# Square, wide and tall images, some of them larger, as in real folders. At a resolution of
# 128 they fall into three buckets.
SIDES = ((128, 128), (160, 104), (128, 128), (104, 160), (192, 192), (256, 168))


@dataclass(frozen=True)
class Smiley:
    """One training image: its face and size in pixels."""

    color: Color
    background: Background
    width: int
    height: int

    def caption(self) -> str:
        """Return the caption, for example "a yellow smiley on a blue background"."""
        subject = f"{article(self.color)} {self.color} {WORD}"
        return f"{subject} on {article(self.background)} {self.background} background"

    def draw(self) -> Image.Image:
        """Draw a big circle with a face on it."""
        scene = Scene("circle", self.color, self.background, "big")
        image = draw(scene, self.width, self.height)
        mask = _face(image.size, *shape_box(scene, self.width, self.height))
        image.paste(INK, mask=mask)
        return image


def smileys(seed: int = 0) -> list[Smiley]:
    """Return the training images, with every color three times."""
    rng = random.Random(seed)
    images = []
    for index in range(COUNT):
        color = COLORS[index % len(COLORS)]
        width, height = SIDES[index % len(SIDES)]
        images.append(
            Smiley(
                color=color,
                background=rng.choice([name for name in BACKGROUNDS if name != color]),
                width=width,
                height=height,
            )
        )
    return images


def _face(size: tuple[int, int], x: float, y: float, radius: float) -> Image.Image:
    """Draw two tall eyes and a wide smile as an antialiased mask.

    Bold, because an eye must cover more than one latent pixel of 8 x 8 pixels.
    """
    finer = 4
    canvas = Image.new("L", (size[0] * finer, size[1] * finer))
    brush = ImageDraw.Draw(canvas)
    x, y, r = x * finer, y * finer, radius * finer
    for side in (-1, 1):
        eye = x + side * 0.34 * r
        brush.ellipse((eye - 0.16 * r, y - 0.55 * r, eye + 0.16 * r, y - 0.05 * r), fill=255)
    reach = 0.64 * r
    box = (x - reach, y - 0.56 * r, x + reach, y + 0.68 * r)
    brush.arc(box, 15, 165, fill=255, width=round(0.2 * r))
    return canvas.reduce(finer)
