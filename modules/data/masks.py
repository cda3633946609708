"""Decoding of masks, for the loss and for models that are given one."""

from typing import BinaryIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from modules.data.images import decode_pixels
from onetrainer.dataset.items import Item
from onetrainer.dataset.transformed_image import DEEP_WHITE, crop_image
from onetrainer.dataset.transforms import ImageTransform
from onetrainer.images.decoding import decoding
from onetrainer.images.image_file import (
    DEEP_MODES,
    ImageError,
    apply_orientation,
    open_image,
    orientation,
)

HALF = 0.5


def decode_mask(item: Item, transform: ImageTransform, file: BinaryIO, *, cell: int) -> Tensor:
    """Decode an item's mask, crop it like its image, and average it over each cell.

    A mask of another size is first stretched to that of its image. file: holds the bytes of
    item.mask. cell: pixels per latent, along each side.

    Returns (1, h, w) of the bucket's latent, float32 in [0, 1]: 1 where the mask is white, or the
    image opaque. Raises ImageError about the item, if the mask cannot be read.
    """
    return functional.avg_pool2d(_cut_mask(item, transform, file), cell).clamp(0, 1)[0]


def decode_input_mask(
    item: Item, transform: ImageTransform, file: BinaryIO, *, cell: int
) -> Tensor:
    """Decode the mask that a model is given as `decode_mask`, but binary.

    Downscaled like diffusers' training: to the nearest pixel of each cell, not their average.
    """
    return functional.interpolate(_input_mask(item, transform, file), scale_factor=1 / cell)[0]


def decode_masked_image(
    item: Item, transform: ImageTransform, image: BinaryIO, mask: BinaryIO
) -> Tensor:
    """Decode an image, filling the masked area with gray, as models that see it are trained.

    Source: diffusers' training scripts. Otherwise as `decode_pixels`.
    """
    return decode_pixels(item, transform, image) * (1 - _input_mask(item, transform, mask)[0])


def _input_mask(item: Item, transform: ImageTransform, file: BinaryIO) -> Tensor:
    """Return (1, 1, H, W) in pixels, float32: 1 where the mask is at least a half, else 0.

    Binary, because models are trained and used with masks that have sharp edges.
    """
    return (_cut_mask(item, transform, file) >= HALF).to(torch.float32)


def _cut_mask(item: Item, transform: ImageTransform, file: BinaryIO) -> Tensor:
    """Decode and crop the mask, (1, 1, H, W) in pixels, float32 in [0, 1]."""
    assert item.mask is not None
    try:
        with open_image(file, item.mask) as image, decoding(image, item.mask):
            exif_orientation = orientation(image, file)
            if item.mask == item.path:
                gray = _normalized(image.convert("RGBA").getchannel("A"), 255)
            else:
                gray = _brightness(image)
    except ImageError as error:
        if item.mask == item.path:
            raise
        raise ImageError(item.path, f'its mask "{item.mask.name}": {error.reason}') from error
    cropped = crop_image(apply_orientation(gray, exif_orientation), transform, "masks")
    return torch.from_numpy(np.array(cropped, dtype=np.float32))[None, None]


def _brightness(image: Image.Image) -> Image.Image:
    if image.mode in DEEP_MODES:
        return _normalized(image, DEEP_WHITE)
    return _normalized(image.convert("L"), 255)


def _normalized(image: Image.Image, white: int) -> Image.Image:
    """Scale to [0, 1] as "F", so that resizing does not round values between black and white."""
    return Image.fromarray(np.asarray(image).astype(np.float32) / white)
