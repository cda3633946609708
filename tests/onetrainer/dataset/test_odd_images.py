"""Odd images, from file to crop, checked against numbers that were worked out by hand.

Every image is a slope: red rises from left to right, green from top to bottom. Scaling keeps
slopes, so that the color of a pixel says where in the image it is from.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.config.data.augmentation import Augmentation
from onetrainer.config.data.buckets import Buckets, Size
from onetrainer.dataset.items import index_concept
from onetrainer.dataset.transformed_image import load_transformed
from onetrainer.dataset.transforms import (
    cropped_fraction,
    image_transform,
    size_conditioning,
    upscale_factor,
)
from tests.each import each

SQUARE = {"sizes": (Size(width=512, height=512),)}
PAIR = {"sizes": (Size(width=512, height=768), Size(width=768, height=512))}


@dataclass(frozen=True)
class Odd:
    """An image and what is to become of it.

    size: upright. cut: size of the scaled image and the cut's left, top, width, height.
    """

    saved: str
    size: tuple[int, int]
    cut: tuple[int, int, int, int, int, int]
    buckets: dict[str, Any] | None = None
    flip: str = "off"
    is_turned: bool = False


# Buckets of 1024 in steps of 64: 1024², 1152 × 896, 1280 × 832, 1408 × 768, 1536 × 704,
# 1664 × 640, 1792 × 576, 1920 × 576, 2048 × 512, and these upright.
ODD = {
    # 1200 / 900 = 1.33 is nearest to 1152 / 896 = 1.29; scale 896 / 900; 1200 · that = 1194.7
    "turned right": Odd("a.png", (900, 1200), (896, 1195, 0, 21, 896, 1152), is_turned=True),
    # scale 2048 / 2400 = 512 / 600
    "4 to 1": Odd("a.png", (2400, 600), (2048, 512, 0, 0, 2048, 512)),
    # scale 5.12; half of 4096 is cut off
    "8 to 1": Odd("a.png", (800, 100), (4096, 512, 1024, 0, 2048, 512)),
    "tiny": Odd("a.png", (16, 16), (1024, 1024, 0, 0, 1024, 1024)),
    "one pixel off": Odd("a.bmp", (1023, 1025), (1024, 1026, 0, 1, 1024, 1024)),
    # No more than twice as large: of 384 in steps of 64, 1.5 is nearest to 448 / 320 = 1.4, and
    # 320 / 200 = 1.6; of 512, 640 / 300 = 2.13 would be too much.
    "small": Odd("a.png", (300, 200), (480, 320, 16, 0, 448, 320), buckets={"upscale_limit": 2.0}),
    # Never enlarged but for what is less than 64.
    "smallest": Odd("a.png", (16, 20), (64, 80, 0, 8, 64, 64), buckets={"upscale_limit": 1.0}),
    # 1.78 is nearest to 1408 / 768 = 1.83; scale 1408 / 1920; 1080 · that = 792, 24 to spare.
    # 0.49 · 792 - 384 = 4.08
    "focus": Odd(
        *("a.png", (1920, 1080), (1408, 792, 0, 4, 1408, 768)),
        buckets={"crop": "focus", "focus_x": 0.1, "focus_y": 0.49},
    ),
    "focus at the edge": Odd(
        *("a.png", (1920, 1080), (1408, 792, 0, 24, 1408, 768)),
        buckets={"crop": "focus", "focus_y": 1.0},
    ),
    # scale 512 / 333; 777 · that = 1194.7; 0.3 · 1195 - 256 = 102.5
    "focus in a square": Odd(
        *("a.png", (777, 333), (1195, 512, 103, 0, 512, 512)),
        buckets={"crop": "focus", "focus_x": 0.3, **SQUARE},
    ),
    # 0.7 · 1195 - 256 = 580.5
    "focus mirrored": Odd(
        *("a.png", (777, 333), (1195, 512, 581, 0, 512, 512)),
        buckets={"crop": "focus", "focus_x": 0.3, **SQUARE},
        flip="always",
    ),
    # 1.33 is nearest to 1.5; scale 768 / 1200 = 0.64
    "fixed sizes": Odd("a.png", (1200, 900), (768, 576, 0, 32, 768, 512), buckets=PAIR),
}


def slope(width, height):
    pixels = np.full((height, width, 3), 128, np.uint8)
    pixels[..., 0] = np.round(np.linspace(0, 255, width))
    pixels[..., 1] = np.round(np.linspace(0, 255, height))[:, None]
    return Image.fromarray(pixels)


def opened(odd, folder):
    """The image's item and its concept, of SDXL at 1024."""
    image, exif = slope(*odd.size), Image.Exif()
    if odd.is_turned:
        exif[0x0112] = 6
        image = image.transpose(Image.Transpose.ROTATE_90)
    image.save(folder / odd.saved, exif=exif)
    concept = ConceptSettings(
        setting_path="data.folder",
        name="odd",
        folder=folder,
        resolutions=(1024,),
        step=64,
        require_captions=False,
        buckets=Buckets(**odd.buckets or {}),
        augmentation=Augmentation(flip=odd.flip),
    )
    (item,) = index_concept(concept).items
    return item, concept


def expected_color(odd, x, y):
    """Of a pixel of the cut, by going back to the image by hand."""
    wide, high, left, top, _, _ = odd.cut
    width, height = odd.size
    across = (left + x + 0.5) / wide
    down = (top + y + 0.5) / high
    across = 1 - across if odd.flip == "always" else across
    red = 255 * (across * width - 0.5) / (width - 1)
    green = 255 * (down * height - 0.5) / (height - 1)
    return [red, green, 128]


@each("name", ODD)
def test_geometry_size_conditioning_and_pixels_are_those_worked_out_by_hand(tmp_path, name):
    odd = ODD[name]
    item, concept = opened(odd, tmp_path)
    seen = image_transform(item, concept, 0)
    wide, high, left, top, width, height = odd.cut
    cut = seen.geometry
    made = (cut.width, cut.height, cut.left, cut.top, cut.bucket.width, cut.bucket.height)
    assert ((item.width, item.height), made) == (odd.size, odd.cut)
    assert size_conditioning(item, seen) == (*odd.size[::-1], top, left, height, width)
    assert cropped_fraction(item, seen) == pytest.approx(1 - width * height / wide / high)
    assert upscale_factor(item, seen) == pytest.approx(wide / odd.size[0], rel=0.001)
    check_pixels(odd, tmp_path / odd.saved, item, seen)


def check_pixels(odd, path, item, transform):
    """Check that pixels come from where the geometry says."""
    with path.open("rb") as file:
        image = load_transformed(item, transform, file)
    assert image.size == odd.cut[4:]
    pixels = np.asarray(image, dtype=np.float64)
    # Not the outermost ones: scaling has nothing to read beyond the edge.
    for fraction_x, fraction_y in [(0.2, 0.3), (0.8, 0.2), (0.3, 0.7), (0.75, 0.8)]:
        x, y = int(fraction_x * image.width), int(fraction_y * image.height)
        assert pixels[y, x] == pytest.approx(expected_color(odd, x, y), abs=2)


def test_focus_of_its_own_comes_from_the_item(tmp_path):
    item, concept = opened(ODD["focus in a square"], tmp_path)
    # 0.5 · 1195 - 256 = 341.5
    seen = image_transform(replace(item, focus=(0.5, 0.5)), concept, 0)
    assert seen.geometry.left == 342
