"""Folders of small images with captions."""

import random
from pathlib import Path

from PIL import Image

SHAPES = [(64, 64), (96, 48), (48, 96), (128, 40), (33, 70), (200, 50)]


def folder(path: Path, sizes, *, caption="a cat, red, sitting") -> Path:
    """Write an image of each size, named 0.png and so on, each of another color."""
    path.mkdir(parents=True, exist_ok=True)
    for number, size in enumerate(sizes):
        color = random.Random(f"{path.name}{number}").choices(range(256), k=3)
        Image.new("RGB", size, tuple(color)).save(path / f"{number}.png")
        (path / f"{number}.txt").write_text(f"{caption}, {number}")
    return path


def shapes(dice: random.Random, most: int):
    """Return random sizes, from one up to a number."""
    return dice.choices(SHAPES, k=dice.randint(1, most))


def save_captions(path: Path, captions) -> Path:
    """Write an image of sharp noise for each caption, which is a text or what its file holds."""
    path.mkdir(parents=True, exist_ok=True)
    for number, caption in enumerate(captions):
        dice = random.Random(number)
        Image.frombytes("RGB", (64, 64), dice.randbytes(3 * 64 * 64)).save(path / f"{number}.png")
        content = caption if isinstance(caption, bytes) else caption.encode()
        (path / f"{number}.txt").write_bytes(content)
    return path
