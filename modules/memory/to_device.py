"""Copies to a device and reads from it that wait for it no more often than needed."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def to_device(tensor: Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Return a tensor on a device, in a dtype; the tensor itself if it already is there.

    Copies to a GPU go through pinned memory: from pageable memory CUDA first waits for all queued
    work (CUDA's "API synchronization behavior"), which leaves the GPU idle afterwards, until
    Python has queued more.
    """
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory().to(device, non_blocking=True)
    # Cast on the device: a cast before would end in pageable memory.
    return tensor.to(device).to(dtype or tensor.dtype)


def read_flags(flags: Sequence[Tensor]) -> list[bool]:
    """Read boolean scalars from any devices, with one read per device."""
    return list(map(bool, _read(flags)))


def read_numbers(numbers: Sequence[Tensor]) -> list[float]:
    """Read scalars from any devices, with one read per device."""
    return list(map(float, _read(numbers)))


def load_tensors(tensors: Mapping[str, Tensor], state: Mapping[str, Tensor], what: str) -> None:
    """Copy a state into tensors; raise ValueError unless names and shapes are equal.

    what: Name of the tensors, for the message.
    """
    if tensors.keys() != state.keys():
        raise ValueError(f"other {what}: {sorted(tensors.keys() ^ state.keys())[:4]}")
    for name, tensor in tensors.items():
        if tensor.shape != state[name].shape:
            raise ValueError(f"{name}: {state[name].shape} is not {tensor.shape}")
    for name, tensor in tensors.items():
        tensor.copy_(state[name])


def _read(scalars: Sequence[Tensor]) -> list[float | bool]:
    values: dict[int, float | bool] = {}
    for device in dict.fromkeys(scalar.device for scalar in scalars):
        indices = [index for index, scalar in enumerate(scalars) if scalar.device == device]
        stacked = torch.stack([scalars[index] for index in indices])
        values |= zip(indices, stacked.tolist(), strict=True)
    return [values[index] for index in range(len(scalars))]
