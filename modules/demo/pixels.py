"""Pillow pictures as the tensors that the autoencoder reads, and back."""

from collections.abc import Sequence

import numpy
import torch
from PIL import Image
from torch import Tensor


def to_pixels(pictures: Sequence[Image.Image]) -> Tensor:
    """(B, 3, H, W), float32 in [-1, 1]; all pictures have one size."""
    array = numpy.stack([numpy.asarray(picture.convert("RGB")) for picture in pictures])
    return torch.from_numpy(array).permute(0, 3, 1, 2).float() / 127.5 - 1


def to_pictures(pixels: Tensor) -> list[Image.Image]:
    """The inverse; values outside [-1, 1] are clipped."""
    array = ((pixels.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).permute(0, 2, 3, 1)
    return [Image.fromarray(picture.numpy()) for picture in array.cpu()]
