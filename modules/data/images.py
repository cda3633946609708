"""A picture file as the pixels that the VAE sees."""

from typing import BinaryIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from onetrainer.dataset.items import Item
from onetrainer.dataset.transformed_image import (
    DEEP_WHITE,
    adjust_colors,
    load_conditioning_image,
    load_transformed,
)
from onetrainer.dataset.transforms import ImageTransform
from onetrainer.images.image_file import ImageError


def load_pixels(item: Item, view: ImageTransform) -> Tensor:
    """A view of a picture; the file is only read.

    Returns (3, height, width) of the view's bucket, float32 in [-1, 1].
    Raises PictureError if the file cannot be read, or is no longer the picture that was indexed.
    """
    try:
        with item.path.open("rb") as file:
            return decode_pixels(item, view, file)
    except OSError as error:
        raise ImageError(item.path, f"cannot be read ({error.strerror})") from error


def decode_pixels(item: Item, view: ImageTransform, file: BinaryIO) -> Tensor:
    """The same from bytes that were already read. file: what item.path holds."""
    return _tensor(load_transformed(item, view, file), view)


def decode_conditioning(item: Item, view: ImageTransform, file: BinaryIO) -> Tensor:
    """The same of the picture that an inpainting model is shown instead of an item's own.

    file: what item.conditioning holds. One of another size is stretched to that of its picture
    first. Raises PictureError, of the item's picture, if it cannot be read.
    """
    assert item.conditioning is not None
    try:
        return _tensor(load_conditioning_image(item.conditioning, view, file), view)
    except ImageError as error:
        named = f'its conditioning picture "{item.conditioning.name}"'
        raise ImageError(item.path, f"{named}: {error.reason}") from error


def _tensor(image: Image.Image, view: ImageTransform) -> Tensor:
    """(3, H, W), float32 in [-1, 1], contiguous: kernels may round other layouts otherwise."""
    pixels = torch.from_numpy(np.array(image))
    if image.mode == "F":
        # Smoothing overshoots at edges; "RGB" is clipped by Pillow, "F" is not.
        gray = pixels.clamp(0, DEEP_WHITE) * (2 / DEEP_WHITE) - 1
        made = gray.expand(3, -1, -1).contiguous()
    else:
        made = (pixels.permute(2, 0, 1).to(torch.float32) / 127.5 - 1).contiguous()
    if not view.is_recolored:
        return made
    return torch.from_numpy(adjust_colors(((made + 1) / 2).numpy(), view)) * 2 - 1
