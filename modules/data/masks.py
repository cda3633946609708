"""Where a picture counts, as the loss sees it, and what of it is to be painted."""

from typing import BinaryIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from onetrainer.dataset.items import Item
from onetrainer.dataset.transformed_image import DEEP_WHITE, apply_orientation, crop_image
from onetrainer.dataset.transforms import ImageTransform
from onetrainer.images.image_file import DEEP_MODES, ImageError, open_image, orientation

CELL = 8
"""Pixels a side that one number of the latent stands for."""

HALF = 0.5


def decode_mask(item: Item, view: ImageTransform, file: BinaryIO) -> Tensor:
    """The mask of an item that has one, cut like its picture, then averaged over each cell.

    file: what item.mask holds. A mask of another size is stretched to that of its picture first.
    Returns (1, 1, h, w) of the bucket's latent, float32 in [0, 1]: 1 where the mask is white, or
    the picture opaque. Raises PictureError, of the picture, if the mask cannot be read.
    """
    return functional.avg_pool2d(_cut_mask(item, view, file), CELL).clamp(0, 1)


def decode_hole(item: Item, view: ImageTransform, file: BinaryIO) -> Tensor:
    """What an inpainting model is to paint: 1 where the mask counts by half or more, else 0.

    Returns (1, 1, 8h, 8w), float32. There is no between: models are trained and used with holes
    that have sharp edges. Otherwise as `decode_mask`.
    """
    return (_cut_mask(item, view, file) >= HALF).to(torch.float32)


def _cut_mask(item: Item, view: ImageTransform, file: BinaryIO) -> Tensor:
    """(1, 1, 8h, 8w), float32 in [0, 1]."""
    assert item.mask is not None
    try:
        with open_image(file, item.mask) as image:
            exif_orientation = orientation(image, file)
            gray = _alpha(image) if item.mask == item.path else _gray(image)
    except ImageError as error:
        if item.mask == item.path:
            raise
        raise ImageError(item.path, f'its mask "{item.mask.name}": {error.reason}') from error
    seen = crop_image(apply_orientation(gray, exif_orientation), view, "masks")
    return torch.from_numpy(np.array(seen, dtype=np.float32))[None, None]


def _alpha(image: Image.Image) -> Image.Image:
    """How opaque a picture is, "F" from 0 to 1."""
    return _shares(image.convert("RGBA").getchannel("A"), 255)


def _gray(image: Image.Image) -> Image.Image:
    """How white a picture is, "F" from 0 to 1."""
    if image.mode in DEEP_MODES:
        return _shares(image, DEEP_WHITE)
    return _shares(image.convert("L"), 255)


def _shares(image: Image.Image, white: int) -> Image.Image:
    """In "F", so that halves between black and white are not rounded while scaling."""
    return Image.fromarray(np.asarray(image).astype(np.float32) / white)
