"""Conversion of Pillow images to the tensors of the autoencoder."""

from collections.abc import Sequence

import numpy
import torch
from PIL import Image
from torch import Tensor


def to_pixels(images: Sequence[Image.Image]) -> Tensor:
    """Return images of one size as pixels, (B, 3, H, W), float32 in [-1, 1]."""
    array = numpy.stack([numpy.asarray(image.convert("RGB")) for image in images])
    return torch.from_numpy(array).permute(0, 3, 1, 2).float() / 127.5 - 1
