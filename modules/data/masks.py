"""Where a picture counts, as the loss sees it."""

from typing import BinaryIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from modules.data.images import DEEP_WHITE, TURNS
from onetrainer.buckets import crop_geometry
from onetrainer.dataset_index import Item
from onetrainer.picture_file import DEEP_MODES, PictureError, opened, orientation

CELL = 8
"""Pixels a side that one number of the latent stands for."""


def decode_mask(item: Item, file: BinaryIO) -> Tensor:
    """The mask of an item that has one, cut like its picture, then averaged over each cell.

    file: what item.mask holds. A mask of another size is stretched to that of its picture first.
    Returns (1, 1, h, w) of the bucket's latent, float32 in [0, 1]: 1 where the mask is white, or
    the picture opaque. Raises PictureError, of the picture, if the mask cannot be read.
    """
    assert item.mask is not None
    geometry = crop_geometry(item.width, item.height, item.bucket)
    try:
        with opened(file, item.mask) as image:
            turn = orientation(image, file)
            gray = _alpha(image) if item.mask == item.path else _gray(image)
    except PictureError as error:
        if item.mask == item.path:
            raise
        raise PictureError(item.path, f'its mask "{item.mask.name}": {error.reason}') from error
    if turn in TURNS:
        gray = gray.transpose(TURNS[turn])
    # Not Lanczos, as for the picture: it undershoots beside edges, and white would not stay white.
    scaled = gray.resize((geometry.width, geometry.height), Image.Resampling.BILINEAR)
    shares = torch.from_numpy(np.array(scaled.crop(geometry.box), dtype=np.float32))
    return functional.avg_pool2d(shares[None, None], CELL).clamp(0, 1)


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
