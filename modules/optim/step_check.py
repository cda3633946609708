"""What is checked of each step on the device, and read with its loss: whether it is broken."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from modules.memory.to_device import to_device
from modules.optim.clipping import not_finite

STEPS_PER_SAMPLE = 25
"""Steps from one sample of an update to the next."""
_SAMPLE = 4096  # numbers


@dataclass(frozen=True)
class UpdateSample:
    """A part of a weight before its update, to see whether the update is lost by rounding."""

    weight: nn.Parameter
    before: Tensor

    @staticmethod
    def take(weights: Sequence[nn.Parameter], step: int) -> "UpdateSample | None":
        """Copy a part of one of the weights in 16 bits, of another one each time.

        None if there is none, or the step has no sample.
        """
        if step % STEPS_PER_SAMPLE:
            return None
        rounded = [
            w for w in weights if w.element_size() == 2 and w.ndim and w.numel() and w.requires_grad
        ]
        if not rounded:
            return None
        weight = rounded[step // STEPS_PER_SAMPLE % len(rounded)]
        return UpdateSample(weight, _first_rows(weight).clone())

    def unchanged(self) -> Tensor:
        """Return the fraction of the numbers that are as they were, a scalar on their device."""
        now = _first_rows(self.weight)
        return (now == self.before.to(now.device)).float().mean()


def _first_rows(weight: nn.Parameter) -> Tensor:
    """Return some of a weight's numbers, as a view."""
    rows = max(1, _SAMPLE * len(weight) // weight.numel())
    return weight.detach()[:rows]


@dataclass(frozen=True)
class StepCheck:
    """The check of a step whose results are still on the device.

    Attributes:
        broken: Scalar, 1 if a loss or the gradient's norm is not finite, and 0 otherwise.
        norm: Scalar, the norm of the whole gradient before clipping.
        norms: (n,), the norm of each gradient.
        weights: (n), the weights that these gradients belong to.
        unchanged: Scalar, of `UpdateSample`; None in steps without a sample.
    """

    broken: Tensor
    norm: Tensor
    norms: Tensor
    weights: Sequence[nn.Parameter]
    unchanged: Tensor | None = None

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
