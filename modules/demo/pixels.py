"""Pillow pictures as the tensors that the autoencoder reads, and back."""

from collections.abc import Sequence

import numpy
import torch
from PIL import Image
from torch import Tensor


def to_pixels(images: Sequence[Image.Image]) -> Tensor:
    """(B, 3, H, W), float32 in [-1, 1]; all pictures have one size."""
    array = numpy.stack([numpy.asarray(image.convert("RGB")) for image in images])
    return torch.from_numpy(array).permute(0, 3, 1, 2).float() / 127.5 - 1


def to_images(pixels: Tensor) -> list[Image.Image]:
    """The inverse; values outside [-1, 1] are clipped."""
    array = ((pixels.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).permute(0, 2, 3, 1)
    return [Image.fromarray(image.numpy()) for image in array.cpu()]
