"""The pictures that others are to be like, as tensors."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from onetrainer.concepts.folder_listing import list_images
from onetrainer.errors import UserError
from onetrainer.images.image_file import DEEP_MODES, ImageError, open_image, orientation

MOST = 1000
"""So many pictures are looked at; more would take long and hardly change the mean."""
_LONGEST = 512  # pixels; what looks at them sees 224, or 16
_SIDEWAYS, _MIRRORED, _UPSIDE_DOWN = (5, 6, 7, 8), (2, 3, 6, 7), (3, 4, 7, 8)
_DEEP_WHITE = 65535


def reference_images(folder: Path) -> list[Tensor]:
    """The folder's own pictures, (3, H, W), float32 in [0, 1], upright, 512 px at most.

    Raises UserError where there is none, or one cannot be read.
    """
    if not folder.is_dir():
        raise UserError(
            f"{folder}: there is no such folder",
            "A folder with the pictures to be like was expected",
            "Check the path",
        )
    found = [one.path for one in list_images(folder, recursive=False) if not one.reason]
    if not found:
        raise UserError(
            f"{folder}: there are no pictures in this folder",
            "The pictures to be like were expected in it, not in folders below",
            "Choose another folder",
        )
    try:
        return [_read(path) for path in found[:MOST]]
    except ImageError as error:
        raise UserError(str(error), "", "Remove this picture, or mend it") from error


def _read(path: Path) -> Tensor:
    try:
        with path.open("rb") as file, open_image(file, path) as opened_file:
            turn = orientation(opened_file, file)
            image = _opaque(opened_file)
    except OSError as error:
        raise ImageError(path, f"cannot be read ({error.strerror})") from error
    image.thumbnail((_LONGEST, _LONGEST), Image.Resampling.LANCZOS)
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).to(torch.float32) / 255
    return _upright(pixels, turn).contiguous()


def _opaque(image: Image.Image) -> Image.Image:
    """In "RGB"; what is transparent becomes white."""
    if image.mode in DEEP_MODES:
        levels = np.asarray(image).astype(np.float32) * (255 / _DEEP_WHITE)
        return Image.fromarray(levels.round().astype(np.uint8)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    page = Image.new("RGBA", image.size, "white")
    page.alpha_composite(image.convert("RGBA"))
    return page.convert("RGB")


def _upright(pixels: Tensor, turn: int) -> Tensor:
    """EXIF's orientation undone (CIPA DC-008, tag 0x0112): 1 is upright already."""
    if turn in _SIDEWAYS:
        pixels = pixels.transpose(-1, -2)
    flipped = [axis for axis, turns in ((-1, _MIRRORED), (-2, _UPSIDE_DOWN)) if turn in turns]
    return pixels.flip(flipped) if flipped else pixels
