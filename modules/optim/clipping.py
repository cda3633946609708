"""Gradient norms, clipping by the global norm across devices, and what is not finite."""

from collections.abc import Sequence

import torch
from torch import Tensor

from modules.memory.to_device import to_device

EPSILON = 1e-6  # as torch's clip_grad_norm_ adds it to the norm


@torch.no_grad()
def gradient_norms(gradients: Sequence[Tensor]) -> Tensor:
    """Return the norm of each gradient, (n,), float32, on a GPU if one of them is there.

    Not torch's clip_grad_norm_: that sums norms device by device, so that the result would depend
    in its last bit on which weights are offloaded. Does not wait for the GPU.
    """
    if not gradients:
        return torch.zeros(0)
    indices: dict[torch.device, list[int]] = {}
    for index, gradient in enumerate(gradients):
        indices.setdefault(gradient.device, []).append(index)
    by_device = {
        device: torch.stack(
            torch._foreach_norm([gradients[index] for index in own], dtype=torch.float32)
        )
        for device, own in indices.items()
    }
    if len(by_device) == 1:
        return next(iter(by_device.values()))
    target = next(device for device in by_device if device.type != "cpu")
    norms = list(gradients)
    for device, own in indices.items():
        for index, norm in zip(own, to_device(by_device[device], target).unbind(), strict=True):
            norms[index] = norm
    return torch.stack(norms)


@torch.no_grad()
def clip(gradients: Sequence[Tensor], norm: Tensor, max_norm: float) -> None:
    """Scale gradients in place, so that their global norm is at most `max_norm`.

    Waits for the GPU only if there are gradients in host memory and the norm is on the GPU.

    norm: Scalar, the global norm of the gradients.
    """
    # The quotient that kernels compute which clip by themselves: the same bits with either.
    divisor = clip_divisor(norm, max_norm)
    for device in {gradient.device: None for gradient in gradients}:
        torch._foreach_div_([g for g in gradients if g.device == device], divisor.to(device))


@torch.no_grad()
def clip_divisor(norm: Tensor, max_norm: float) -> Tensor:
    """Return the scalar by which gradients are divided, by `clip` or by the optimizer's kernels."""
    return torch.clamp((norm + EPSILON) / max_norm, min=1.0)


def not_finite(scalar: Tensor) -> Tensor:
    """Return a float32 scalar, 1 if a scalar is infinite or NaN and 0 otherwise; reads nothing."""
    return (scalar * 0 != 0).float()
