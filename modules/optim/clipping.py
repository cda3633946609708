"""Gradient norms, clipping by the global norm across devices, and what is not finite."""

from collections.abc import Sequence

import torch
from torch import Tensor

from modules.memory.to_device import to_device

EPSILON = 1e-6  # as torch's clip_grad_norm_ adds it to the norm


@torch.no_grad()
def gradient_norms(gradients: Sequence[Tensor]) -> Tensor:
    """Return the norm of each gradient, (n,), on a GPU if one of them is there.

    Not torch's clip_grad_norm_: that sums norms device by device, so that the result would depend
    in its last bit on which weights are offloaded. Does not wait for the GPU.
    """
    norms: list[Tensor] = list(gradients)
    for device in {gradient.device: None for gradient in gradients}:
        indices = [index for index, each in enumerate(gradients) if each.device == device]
        device_norms = torch._foreach_norm([gradients[index] for index in indices])
        for index, norm in zip(indices, device_norms, strict=True):
            norms[index] = norm
    return stacked(norms)


def stacked(scalars: Sequence[Tensor]) -> Tensor:
    """Return scalars of any devices as one tensor, (n,), on a GPU if one of them is there."""
    if not scalars:
        return torch.zeros(0)
    devices = {scalar.device: None for scalar in scalars}
    target = next((device for device in devices if device.type != "cpu"), scalars[0].device)
    placed: list[Tensor] = list(scalars)
    for device in devices:
        indices = [index for index, each in enumerate(scalars) if each.device == device]
        together = to_device(torch.stack([scalars[index] for index in indices]), target)
        for index, scalar in zip(indices, together, strict=True):
            placed[index] = scalar
    return torch.stack(placed)


@torch.no_grad()
def clip(gradients: Sequence[Tensor], norm: Tensor, max_norm: float) -> None:
    """Scale gradients in place, so that their global norm is at most `max_norm`.

    Waits for the GPU only if there are gradients in host memory and the norm is on the GPU.

    norm: Scalar, the global norm of the gradients.
    """
    factor = torch.clamp(max_norm / (norm + EPSILON), max=1.0)
    for device in {gradient.device: None for gradient in gradients}:
        torch._foreach_mul_([g for g in gradients if g.device == device], factor.to(device))


def not_finite(scalar: Tensor) -> Tensor:
    """Return a float32 scalar, 1 if a scalar is infinite or NaN and 0 otherwise; reads nothing."""
    return (scalar * 0 != 0).float()
