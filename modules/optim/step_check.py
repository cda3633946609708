"""What is checked of each step on the device, and read with its loss: whether it is broken."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from modules.memory.to_device import to_device
from modules.optim.clipping import not_finite


@dataclass(frozen=True)
class StepCheck:
    """The check of a step whose results are still on the device.

    Attributes:
        broken: Scalar, 1 if a loss or the gradient's norm is not finite, and 0 otherwise.
        norm: Scalar, the norm of the whole gradient before clipping.
        norms: (n,), the norm of each gradient.
        weights: (n), the weights that these gradients belong to.
    """

    broken: Tensor
    norm: Tensor
    norms: Tensor
    weights: Sequence[nn.Parameter]

    @staticmethod
    @torch.no_grad()
    def of(
        loss: Tensor, norms: Tensor, weights: Sequence[nn.Parameter], *, may_overflow: bool
    ) -> "StepCheck":
        """Check a step without waiting for the device.

        Args:
            loss: Scalar, the sum of the microbatches' losses.
            norms: (n,), as the attribute.
            weights: (n), as the attribute.
            may_overflow: Whether gradients that are not finite are an overflow, which fp16's loss
                scale handles, rather than a broken step.
        """
        norm = torch.linalg.vector_norm(norms)
        checked = loss if may_overflow else loss + to_device(norm, loss.device)
        return StepCheck(not_finite(checked), norm, norms, weights)
