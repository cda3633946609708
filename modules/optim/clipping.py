"""Gradient clipping by global norm, across devices."""

from collections.abc import Sequence

import torch
from torch import Tensor

from modules.memory.to_device import to_device

EPSILON = 1e-6  # as torch's clip_grad_norm_ adds it to the norm


@torch.no_grad()
def clip(gradients: Sequence[Tensor], max_norm: float) -> None:
    """Scale gradients in place, so that their global norm is at most `max_norm`.

    Not torch's clip_grad_norm_: that sums norms device by device, so that the result would depend
    in its last bit on which weights are offloaded. Does not wait for the GPU, except for gradients
    in host memory, which need the norms of those on the GPU.
    """
    if not gradients:
        return
    devices = {gradient.device: None for gradient in gradients}
    target = next((device for device in devices if device.type != "cpu"), gradients[0].device)
    norms: list[Tensor] = [gradients[0]] * len(gradients)
    for device in devices:
        indices = [index for index, each in enumerate(gradients) if each.device == device]
        device_norms = torch._foreach_norm([gradients[index] for index in indices])
        for index, norm in zip(indices, to_device(torch.stack(device_norms), target), strict=True):
            norms[index] = norm
    total = torch.linalg.vector_norm(torch.stack(norms))
    factor = torch.clamp(max_norm / (total + EPSILON), max=1.0)
    for device in devices:
        torch._foreach_mul_([g for g in gradients if g.device == device], factor.to(device))
