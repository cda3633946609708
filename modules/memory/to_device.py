"""What goes to the device and comes from it, without waiting more often than needed."""

from collections.abc import Sequence

import torch
from torch import Tensor


def sent(tensor: Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor of an input on a device; itself where it is there already.

    To a card it goes from pinned memory: from any other, CUDA first waits for all that the card was
    asked for before (CUDA's "API synchronization behavior" says so of pageable memory), which
    leaves the card idle afterwards, until Python has asked for more.
    """
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory().to(device, non_blocking=True)
    # The number format changes there: cast on its way, it would be copied to pageable memory.
    return tensor.to(device).to(dtype or tensor.dtype)


def read_flags(flags: Sequence[Tensor]) -> list[bool]:
    """Scalars that are true or false, wherever they are: one read for each device."""
    return list(map(bool, _read(flags)))


def read_numbers(numbers: Sequence[Tensor]) -> list[float]:
    """Scalars, wherever they are: one read for each device."""
    return list(map(float, _read(numbers)))


def _read(scalars: Sequence[Tensor]) -> list[float | bool]:
    read: dict[int, float | bool] = {}
    for device in dict.fromkeys(scalar.device for scalar in scalars):
        places = [place for place, scalar in enumerate(scalars) if scalar.device == device]
        together = torch.stack([scalars[place] for place in places])
        read |= zip(places, together.tolist(), strict=True)
    return [read[place] for place in range(len(scalars))]
