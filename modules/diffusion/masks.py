"""Masked training: weights of each position of an image, and the masked loss per image."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class MaskWeights:
    """Weights of each position of an image in its loss.

    trained: (B, 1, h, w), of the error against the image's target. preserved: (B, 1, h, w), of the
    difference from the base model's prediction; None if that has no weight anywhere.
    """

    trained: Tensor
    preserved: Tensor | None


def mask_weights(mask: Tensor, *, outside: float, prior: float) -> MaskWeights:
    """Return the weights of masked images.

    Args:
        mask: (B, 1, h, w), in [0, 1].
        outside: The weight of the target where the mask is 0.
        prior: The weight of the base model's prediction there.
    """
    outside_mask = 1 - mask
    return MaskWeights(mask + outside_mask * outside, prior * outside_mask if prior else None)


def masked_mean(
    trained: Tensor, preserved: Tensor | None, weights: MaskWeights, *, normalize_area: bool
) -> Tensor:
    """Compute each image's loss, (B,).

    Args:
        trained: (B, C, h, w), the errors against the target.
        preserved: (B, C, h, w), the differences from the base model's prediction.
        weights: Of each position.
        normalize_area: Divide by the mean weight, so that every image counts the same; an image
            with no weight stays 0.
    """
    total, weight = trained * weights.trained, weights.trained
    if weights.preserved is not None and preserved is not None:
        total, weight = total + preserved * weights.preserved, weight + weights.preserved
    per_item = total.mean(dim=(1, 2, 3))
    if not normalize_area:
        return per_item
    return per_item / weight.mean(dim=(1, 2, 3)).clamp(min=torch.finfo(weight.dtype).tiny)
