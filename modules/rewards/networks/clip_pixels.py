"""Differentiable preprocessing of images for CLIP: size, mean and standard deviation."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from modules.memory.to_device import to_device

# Of red, green and blue in CLIP's images; BLIP has the same. Source: Radford et al. 2021, code.
MEAN = (0.48145466, 0.4578275, 0.40821073)
DEVIATION = (0.26862954, 0.26130258, 0.27577711)

Fit = Literal["crop", "pad"]
"""How an image becomes a square: its center, or all of it with black bars."""


def clip_pixels(images: Tensor, size: int, *, fit: Fit = "crop") -> Tensor:
    """Resize images to squares, (B, 3, size, size), and normalize them.

    Resized by the bicubic filter with antialiasing, so that the shorter side ("crop") or the
    longer one ("pad") is `size`; the filter's overshoot is clamped, as in images of 8 bits, which
    Pillow would make.

    Args:
        images: (B, 3, H, W), floating point, in [0, 1].
        size: In pixels.
        fit: How images become squares.
    """
    height, width = images.shape[-2:]
    sides = _scaled(height, width, size, fit)
    if sides != (height, width):
        images = functional.interpolate(
            images, size=sides, mode="bicubic", antialias=True, align_corners=False
        ).clamp(0, 1)
    square = _cropped(images, size) if fit == "crop" else _padded(images, size)
    mean, deviation = (
        to_device(torch.tensor(each, dtype=square.dtype), square.device)[:, None, None]
        for each in (MEAN, DEVIATION)
    )
    return (square - mean) / deviation


def _scaled(height: int, width: int, size: int, fit: Fit) -> tuple[int, int]:
    """Return both sides after resizing, rounded as the networks' own programs do."""
    if fit == "pad":
        longest = max(height, width)
        return max(1, round(size * height / longest)), max(1, round(size * width / longest))
    shortest = min(height, width)
    return size * height // shortest, size * width // shortest


def _cropped(images: Tensor, size: int) -> Tensor:
    top, left = ((side - size) // 2 for side in images.shape[-2:])
    return images[..., top : top + size, left : left + size]


def _padded(images: Tensor, size: int) -> Tensor:
    bottom, right = (size - side for side in images.shape[-2:])
    edges = (right // 2, right - right // 2, bottom // 2, bottom - bottom // 2)
    return functional.pad(images, edges) if any(edges) else images
