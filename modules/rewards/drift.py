"""Measures of reward hacking in images: monitored, never trained."""

import torch
from torch import Tensor
from torch.nn import functional

from modules.rewards.measures import contrast, saturation

__all__ = ["contrast", "diversity", "downscaled", "saturation"]

_SIDE = 32  # layout and colors count, not the noise of single pixels


def downscaled(images: Tensor) -> Tensor:
    """Average images over areas, (N, 3, 32, 32), for `diversity`.

    images: (N, 3, H, W). Downscaled ones stay unchanged.
    """
    return functional.adaptive_avg_pool2d(images, _SIDE)


def diversity(images: Tensor) -> Tensor:
    """Measure how different images are from each other: a scalar in [0, 1], 0 if all are equal.

    The mean over all pairs of the root mean square difference of the images, averaged over 32 x 32
    areas; 0 for a single image. images: (N, 3, H, W), in [0, 1].
    """
    if len(images) < 2:
        return images.new_zeros(())
    small = downscaled(images).flatten(1)
    first, second = torch.triu_indices(len(small), len(small), offset=1, device=small.device)
    return (small[first] - small[second]).square().mean(dim=1).sqrt().mean()
