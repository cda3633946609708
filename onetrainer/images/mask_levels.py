"""The darkest and the brightest level of a mask."""

from functools import lru_cache
from pathlib import Path
from typing import cast

from onetrainer.images.decoding import decoding
from onetrainer.images.features import as_rgb
from onetrainer.images.header import file_stamp
from onetrainer.images.image_file import ImageError, open_image


def mask_levels(path: Path, *, is_alpha: bool) -> tuple[int, int] | None:
    """Return the lowest and the highest level of a mask, of 255; None if it cannot be read.

    is_alpha: Whether the mask is the transparency of an image.
    """
    stamp = file_stamp(path)
    # Without a stamp the file has just changed, and may again within the same moment.
    return (_known_levels if stamp else _levels)(path, is_alpha, stamp)


def _levels(path: Path, is_alpha: bool, _stamp: tuple[int, ...]) -> tuple[int, int] | None:
    try:
        with path.open("rb") as file, open_image(file, path) as image, decoding(image, path):
            shown = image.convert("RGBA") if is_alpha else as_rgb(image)
            mask = shown.getchannel("A") if is_alpha else shown.convert("L")
            low, high = cast(tuple[int, int], mask.getextrema())
            return low, high
    except (ImageError, OSError):
        return None  # the image is then left out, with the reason


_known_levels = lru_cache(10_000)(_levels)
"""The same, remembered: a check is repeated with every change of a setting."""
