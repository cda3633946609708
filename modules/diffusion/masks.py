"""What of a picture counts, and how that becomes one number for each picture."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Shares:
    """How much each place of a picture counts.

    learnt: (B, 1, h, w), for the target of the picture. kept: (B, 1, h, w), for what the untouched
    model predicts; None if that counts nowhere.
    """

    trained: Tensor
    kept: Tensor | None


def shares(mask: Tensor, *, outside: float, prior: float) -> Shares:
    """The shares of masked pictures.

    mask: (B, 1, h, w), in [0, 1]. outside: how much is learnt where the mask is 0. prior: how much
    is kept there.
    """
    left_out = 1 - mask
    return Shares(mask + left_out * outside, prior * left_out if prior else None)


def averaged(
    trained: Tensor, kept: Tensor | None, shares: Shares, *, normalize_area: bool
) -> Tensor:
    """Each picture's loss, (B,).

    learnt, kept: (B, C, h, w), the errors against the target and against the untouched model's
    prediction. normalize_area: divides by what the shares are on average, so that every picture
    counts the same; one in which nothing counts stays 0.
    """
    total, weight = trained * shares.trained, shares.trained
    if shares.kept is not None and kept is not None:
        total, weight = total + kept * shares.kept, weight + shares.kept
    per_item = total.mean(dim=(1, 2, 3))
    if not normalize_area:
        return per_item
    return per_item / weight.mean(dim=(1, 2, 3)).clamp(min=torch.finfo(weight.dtype).tiny)
