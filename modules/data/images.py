"""Decoding of image files to the pixels that the VAE encodes."""

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


def decode_pixels(item: Item, transform: ImageTransform, file: BinaryIO) -> Tensor:
    """Decode an image from a file that holds the bytes of item.path, and transform it.

    Returns (3, height, width) of the transform's bucket, float32 in [-1, 1]. Raises ImageError if
    the file cannot be read, or is no longer the image that was indexed.
    """
    return _tensor(load_transformed(item, transform, file), transform)


def decode_conditioning(item: Item, transform: ImageTransform, file: BinaryIO) -> Tensor:
    """Decode the conditioning image of an item, the input of models that see one.

    An image of another size is first stretched to that of the item's image. Raises ImageError
    about the item if it cannot be read.
    file: holds the bytes of item.conditioning.
    """
    assert item.conditioning is not None
    try:
        return _tensor(load_conditioning_image(item.conditioning, transform, file), transform)
    except ImageError as error:
        name = f'its conditioning image "{item.conditioning.name}"'
        raise ImageError(item.path, f"{name}: {error.reason}") from error


def _tensor(image: Image.Image, transform: ImageTransform) -> Tensor:
    """Convert to (3, H, W), float32 in [-1, 1], contiguous: other layouts may round differently."""
    pixels = torch.from_numpy(np.array(image))
    if image.mode == "F":
        # Resampling overshoots at edges; Pillow clips "RGB", but not "F".
        gray = pixels.clamp(0, DEEP_WHITE) * (2 / DEEP_WHITE) - 1
        result = gray.expand(3, -1, -1).contiguous()
    else:
        result = (pixels.permute(2, 0, 1).to(torch.float32) / 127.5 - 1).contiguous()
    if not transform.is_recolored:
        return result
    return torch.from_numpy(adjust_colors(((result + 1) / 2).numpy(), transform)) * 2 - 1
