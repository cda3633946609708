"""Pictures as CLIP's networks want them: their size, their mean, their spread; with a gradient."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from modules.memory.to_device import sent

# Of red, green and blue over CLIP's pictures; BLIP has the same. Source: Radford et al. 2021, code.
MEAN = (0.48145466, 0.4578275, 0.40821073)
SPREAD = (0.26862954, 0.26130258, 0.27577711)

Fit = Literal["cut", "pad"]
"""How a picture becomes a square: its middle, or all of it with black beside it."""


def clip_pixels(images: Tensor, size: int, *, fit: Fit = "cut") -> Tensor:
    """The pictures' squares, (B, 3, size, size), normalized; size: in pixels.

    pictures: (B, 3, H, W), floating, in [0, 1]. Scaled by the bicubic filter with antialiasing, so
    that the shorter side ("cut") or the longer one ("pad") is size; what the filter overshoots is
    cut off, as in pictures of 8 bits, which Pillow would have made.
    """
    height, width = images.shape[-2:]
    sides = _scaled(height, width, size, fit)
    if sides != (height, width):
        images = functional.interpolate(
            images, size=sides, mode="bicubic", antialias=True, align_corners=False
        ).clamp(0, 1)
    square = _cut(images, size) if fit == "cut" else _padded(images, size)
    mean, spread = (_of_channels(one, square) for one in (MEAN, SPREAD))
    return (square - mean) / spread


def _of_channels(values: Sequence[float], images: Tensor) -> Tensor:
    return sent(torch.tensor(values, dtype=images.dtype), images.device)[:, None, None]


def _scaled(height: int, width: int, size: int, fit: Fit) -> tuple[int, int]:
    """Both sides after scaling, rounded as the networks' own programs round."""
    if fit == "pad":
        longest = max(height, width)
        return max(1, round(size * height / longest)), max(1, round(size * width / longest))
    shortest = min(height, width)
    return size * height // shortest, size * width // shortest


def _cut(images: Tensor, size: int) -> Tensor:
    top, left = ((side - size) // 2 for side in images.shape[-2:])
    return images[..., top : top + size, left : left + size]


def _padded(images: Tensor, size: int) -> Tensor:
    below, right = (size - side for side in images.shape[-2:])
    edges = (right // 2, right - right // 2, below // 2, below - below // 2)
    return functional.pad(images, edges) if any(edges) else images
