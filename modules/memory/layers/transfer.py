"""How tensors travel between the device that computes and the one where others wait.

Directly, when they are asked for; `modules.memory.layers.streams` has the ways that go ahead of
time.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class Fetching(Protocol):
    """Brings tensors to the device that computes."""

    def to_device(self, tensor: Tensor) -> Tensor:
        """A copy on the train device, without gradient, apart from its source in every case."""
        ...

    def prefetch(self, tensors: Sequence[Tensor]) -> None:
        """Tells what `to_device` will be asked for next, so that it can be on its way."""
        ...


class WeightTransfer(Fetching, Protocol):
    """Brings weights to the device that computes, and their gradients to where they wait."""

    def all_to_host(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Copies on the temp device, which can be read at once, without gradient."""
        ...


class InputTransfer(Fetching, Protocol):
    """Brings saved inputs to where they wait, and back to the device that computes."""

    def to_host(self, tensor: Tensor) -> Tensor:
        """A copy on the temp device, without gradient, apart from its source in every case."""
        ...


class Transfer(WeightTransfer, InputTransfer, Protocol):
    """Brings weights and saved inputs."""


class DirectTransfer:
    """Copies when they are asked for; whoever asks waits for them."""

    def __init__(self, train_device: torch.device, offload_device: torch.device) -> None:
        self._train_device = train_device
        self._temp_device = offload_device

    def to_device(self, tensor: Tensor) -> Tensor:
        return copied(tensor, self._train_device)

    def to_host(self, tensor: Tensor) -> Tensor:
        return copied(tensor, self._temp_device)

    def all_to_host(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        return all_copied(gradients, self._temp_device)

    def prefetch(self, tensors: Sequence[Tensor]) -> None:
        """Nothing: copies are made when they are asked for."""


@torch.no_grad()
def copied(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy on a device, with the same strides, without gradient.

    The processor waits for copies to main memory, and for those to a card whose source is not in
    pinned memory; it may be changed at once. From pinned memory they follow each other, and what is
    computed there, in order.
    """
    # Not `to(copy=True)`: quantised tensors and their libraries do not know it.
    moved = tensor.to(device, non_blocking=device.type != "cpu")
    return moved.detach().clone() if moved.device == tensor.device else moved


@torch.no_grad()
def all_copied(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Copies on a device, as `copied` makes them, for which the processor waits once in all.

    From a card they come one behind the other on the stream that computes, and nobody has them
    before the last has landed: it cannot matter whether one of them is slow.
    """
    if device.type != "cpu" or not tensors or not all(tensor.is_cuda for tensor in tensors):
        return [copied(tensor, device) for tensor in tensors]
    try:
        # Into pinned memory, which torch makes for such copies.
        copies = [tensor.to(device, non_blocking=True) for tensor in tensors]
    except RuntimeError:  # there is no more of it; waiting for each takes none
        return [copied(tensor, device) for tensor in tensors]
    torch.cuda.current_stream(tensors[0].device).record_event().synchronize()
    return copies
