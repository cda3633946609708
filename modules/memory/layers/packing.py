"""Tensors in one piece of memory, which travels between devices as a single copy."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

_ALIGNMENT = 512
"""Bytes to which GPUs align tensors, on which the bits of some kernels' results depend."""


@dataclass(frozen=True)
class Packed:
    """Tensors side by side. memory: (bytes,), uint8. tensors: views of it, in their order."""

    memory: Tensor
    tensors: tuple[Tensor, ...]

    @staticmethod
    @torch.no_grad()
    def of(tensors: Sequence[Tensor]) -> "Packed":
        """Copy tensors in host memory into one piece of pinned memory, which a GPU reads directly.

        Raises RuntimeError if so much cannot be pinned.
        """
        *_, size = _offsets(tensors)
        memory = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        views = views_in(memory, tensors)
        for view, tensor in zip(views, tensors, strict=True):
            view.copy_(tensor)
        return Packed(memory, tuple(views))

    def holds(self, tensors: Sequence[Tensor]) -> bool:
        """Return whether these are the tensors that it holds, none of which has left its place."""
        return len(tensors) == len(self.tensors) and all(
            own.data_ptr() == tensor.data_ptr()
            for own, tensor in zip(self.tensors, tensors, strict=True)
        )


def views_in(memory: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return views of packed memory, on any device, as the tensors that are packed in it."""
    offsets = _offsets(tensors)
    return [
        memory[offset : offset + tensor.numel() * tensor.element_size()]
        .view(tensor.dtype)
        .as_strided(tensor.size(), torch.empty_like(tensor, device="meta").stride())
        for offset, tensor in zip(offsets, tensors, strict=False)
    ]


def _offsets(tensors: Sequence[Tensor]) -> list[int]:
    """Return where each tensor begins, and where the last one ends."""
    sizes = (tensor.numel() * tensor.element_size() for tensor in tensors)
    return [*accumulate((-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes), initial=0)]
