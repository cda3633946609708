"""Gradients shortened to a largest norm, wherever they are."""

from collections.abc import Sequence

import torch
from torch import Tensor

from modules.memory.to_device import sent

EPSILON = 1e-6  # as torch's clip_grad_norm_ adds it to the norm


@torch.no_grad()
def clip(gradients: Sequence[Tensor], largest: float) -> None:
    """Scales gradients in place, so that the norm of all of them together is at most `largest`.

    Not torch's clip_grad_norm_: that adds norms up device by device, so that it would matter to the
    last bit which weights wait in main memory. Reads nothing, but for gradients in main memory,
    which wait for those on a card.
    """
    if not gradients:
        return
    devices = {gradient.device: None for gradient in gradients}
    place = next((device for device in devices if device.type != "cpu"), gradients[0].device)
    norms: list[Tensor] = [gradients[0]] * len(gradients)
    for device in devices:
        own = [number for number, each in enumerate(gradients) if each.device == device]
        found = torch._foreach_norm([gradients[number] for number in own])
        for number, norm in zip(own, sent(torch.stack(found), place), strict=True):
            norms[number] = norm
    total = torch.linalg.vector_norm(torch.stack(norms))
    factor = torch.clamp(largest / (total + EPSILON), max=1.0)
    for device in devices:
        torch._foreach_mul_([g for g in gradients if g.device == device], factor.to(device))
