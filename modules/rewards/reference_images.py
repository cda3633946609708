"""Loading of reference images."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from onetrainer.concepts.folder_listing import list_images
from onetrainer.errors import UserError
from onetrainer.images.image_file import DEEP_MODES, ImageError, open_image, orientation

MAX_IMAGES = 1000
"""Images that are used; more would take long and hardly change the mean."""
_MAX_SIDE = 512  # pixels; the rewards resize to 224, or 16
_SIDEWAYS, _MIRRORED, _UPSIDE_DOWN = (5, 6, 7, 8), (2, 3, 6, 7), (3, 4, 7, 8)
_DEEP_WHITE = 65535


def reference_images(folder: Path) -> list[Tensor]:
    """Load the folder's images, (3, H, W), float32 in [0, 1], upright, 512 px at most.

    Raises:
        UserError: The folder has none, or one cannot be read.
    """
    if not folder.is_dir():
        raise UserError(
            f"{folder}: no such folder",
            "Expected a folder with the reference images",
            "Check the path",
        )
    paths = [image.path for image in list_images(folder, recursive=False) if not image.reason]
    if not paths:
        raise UserError(
            f"{folder}: no images in this folder",
            "Expected the reference images in it, not in subfolders",
            "Choose another folder",
        )
    try:
        return [_read(path) for path in paths[:MAX_IMAGES]]
    except ImageError as error:
        raise UserError(str(error), "", "Remove or repair this image") from error


def _read(path: Path) -> Tensor:
    try:
        with path.open("rb") as file, open_image(file, path) as opened_file:
            exif_orientation = orientation(opened_file, file)
            image = _opaque(opened_file)
    except OSError as error:
        raise ImageError(path, f"cannot be read ({error.strerror})") from error
    image.thumbnail((_MAX_SIDE, _MAX_SIDE), Image.Resampling.LANCZOS)
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).to(torch.float32) / 255
    # Undoes EXIF's orientation (CIPA DC-008, tag 0x0112): 1 is upright already.
    if exif_orientation in _SIDEWAYS:
        pixels = pixels.transpose(-1, -2)
    if exif_orientation in _MIRRORED:
        pixels = pixels.flip(-1)
    if exif_orientation in _UPSIDE_DOWN:
        pixels = pixels.flip(-2)
    return pixels.contiguous()


def _opaque(image: Image.Image) -> Image.Image:
    """Convert to "RGB"; what is transparent becomes white."""
    if image.mode in DEEP_MODES:
        levels = np.asarray(image).astype(np.float32) * (255 / _DEEP_WHITE)
        return Image.fromarray(levels.round().astype(np.uint8)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    page = Image.new("RGBA", image.size, "white")
    page.alpha_composite(image.convert("RGBA"))
    return page.convert("RGB")
