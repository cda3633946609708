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
    if tensor.device == device and dtype in (None, tensor.dtype):
        return tensor
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory().to(device, non_blocking=True)
    # Cast on the device: a cast before would end in pageable memory.
    return tensor.to(device).to(dtype or tensor.dtype)


def read_flags(flags: Sequence[Tensor]) -> list[bool]:
    """Read boolean scalars from any devices, with one read per device."""
    return list(map(bool, LateNumbers(flags).read()))


class LateNumbers:
    """Scalars from any devices that are read late, without waiting for what is queued after them.

    They leave a GPU for pinned memory as soon as it has computed them. torch keeps that memory for
    the next ones, so that few pieces of it go round.
    """

    def __init__(self, scalars: Sequence[Tensor | float]) -> None:
        """Queue the copies; what is in host memory is read at once."""
        self._values: dict[int, float] = {}
        self._copies: list[tuple[list[int], Tensor]] = []
        self._arrivals: list[torch.cuda.Event] = []
        on_devices: dict[torch.device, dict[int, Tensor]] = {}
        for index, scalar in enumerate(scalars):
            if isinstance(scalar, Tensor) and scalar.device.type != "cpu":
                on_devices.setdefault(scalar.device, {})[index] = scalar
            else:
                self._values[index] = float(scalar)
        for device, found in on_devices.items():
            together = torch.stack([*found.values()])
            if device.type == "cuda":
                pinned = torch.empty_like(together, device="cpu", pin_memory=True)
                together = pinned.copy_(together, non_blocking=True)
                self._arrivals.append(torch.cuda.current_stream(device).record_event())
            self._copies.append(([*found], together))

    def have_arrived(self) -> bool:
        """Return whether reading does not wait for a GPU."""
        return all(map(_has_happened, self._arrivals))

    def read(self) -> list[float]:
        """Return the scalars."""
        for arrival in self._arrivals:
            if not _has_happened(arrival):
                arrival.synchronize()
        while self._copies:
            indices, together = self._copies.pop()
            self._values |= zip(indices, map(float, together.tolist()), strict=True)
        return [self._values[index] for index in range(len(self._values))]


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


def _has_happened(event: torch.cuda.Event) -> bool:
    return bool(event.query())  # type: ignore[no-untyped-call] # torch's
