"""What changes in pictures when a reward is pleased at any price: watched, never trained."""

import torch
from torch import Tensor
from torch.nn import functional

from modules.rewards.measures import contrast, saturation

__all__ = ["contrast", "diversity", "saturation", "shrunk"]

_SIDE = 32  # layout and colors count, not the noise of single pixels


def shrunk(images: Tensor) -> Tensor:
    """What of pictures counts for how different they are, (N, 3, 32, 32): means over areas.

    pictures: (N, 3, H, W). Those that have been shrunk stay as they are.
    """
    return functional.adaptive_avg_pool2d(images, _SIDE)


def diversity(images: Tensor) -> Tensor:
    """How different pictures are from each other: a scalar in [0, 1], 0 if they are all one.

    The mean over all pairs of the root mean square difference of the pictures, averaged over
    32 x 32 areas; 0 for a single picture. pictures: (N, 3, H, W), in [0, 1].
    """
    if len(images) < 2:
        return images.new_zeros(())
    small = shrunk(images).flatten(1)
    one, other = torch.triu_indices(len(small), len(small), offset=1, device=small.device)
    return (small[one] - small[other]).square().mean(dim=1).sqrt().mean()
