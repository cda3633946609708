"""Transfers of tensors between the train device and the offload device.

Synchronous ones; `modules.memory.layers.streams` has those that copy ahead of time.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class DeviceTransfer(Protocol):
    """Transfer of tensors to the train device."""

    def to_device(self, tensor: Tensor) -> Tensor:
        """Return a copy on the train device, without gradient, never the tensor itself."""
        ...

    def prefetch(self, tensors: Sequence[Tensor]) -> None:
        """Announce what `to_device` will fetch next, so that copying can start."""
        ...


class WeightTransfer(DeviceTransfer, Protocol):
    """Transfer of weights to the train device, and of their gradients to the offload device."""

    def all_to_host(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Return copies on the offload device, without gradient, that can be read at once."""
        ...


class InputTransfer(DeviceTransfer, Protocol):
    """Transfer of saved inputs to the offload device, and back to the train device."""

    def to_host(self, tensor: Tensor) -> Tensor:
        """Return a copy on the offload device, without gradient, never the tensor itself."""
        ...


class Transfer(WeightTransfer, InputTransfer, Protocol):
    """Transfer of weights and saved inputs."""


class DirectTransfer:
    """Transfer that copies synchronously when a tensor is fetched."""

    def __init__(self, train_device: torch.device, offload_device: torch.device) -> None:
        self._train_device = train_device
        self._offload_device = offload_device

    def to_device(self, tensor: Tensor) -> Tensor:
        return copy_to_device(tensor, self._train_device)

    def to_host(self, tensor: Tensor) -> Tensor:
        return copy_to_device(tensor, self._offload_device)

    def all_to_host(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        return copy_all_to_device(gradients, self._offload_device)

    def prefetch(self, tensors: Sequence[Tensor]) -> None:
        """Do nothing: copies are made when they are fetched."""


@torch.no_grad()
def copy_to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a copy on a device, with the same strides, without gradient.

    The processor waits for copies to host memory, and for those to a GPU from memory that is not
    pinned; the source may be changed at once. Copies from pinned memory are ordered with each
    other and with the computing stream.
    """
    # Not `to(copy=True)`: quantized tensors and their libraries do not support it. Non-blocking
    # copies to Apple's GPUs read memory that may be freed by then (torch 2.13).
    moved = tensor.to(device, non_blocking=device.type == "cuda")
    return moved.detach().clone() if moved.device == tensor.device else moved


@torch.no_grad()
def copy_all_to_device(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Return copies on a device, as `copy_to_device` makes them, waiting once for all of them.

    From a GPU they are queued on the computing stream, and none is returned before the last is
    complete: it cannot matter whether one of them is slow.
    """
    if device.type != "cpu" or not tensors or not all(tensor.is_cuda for tensor in tensors):
        return [copy_to_device(tensor, device) for tensor in tensors]
    try:
        # Into pinned memory, which torch makes for such copies.
        copies = [tensor.to(device, non_blocking=True) for tensor in tensors]
    except RuntimeError:  # no more pinned memory; waiting for each copy takes none
        return [copy_to_device(tensor, device) for tensor in tensors]
    torch.cuda.current_stream(tensors[0].device).record_event().synchronize()
    return copies
