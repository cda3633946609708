"""Exponential moving average (EMA) of the trained weights, in float32.

Source: Polyak & Juditsky 1992; the ramp is that of TensorFlow's ExponentialMovingAverage.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from modules.memory.to_device import load_tensors
from modules.optim.update import chunked


class Ema:
    """The EMA of weights; its update in a step depends on the step number alone.

    Args:
        parameters: The weights by their names in checkpoints.
        decay: The fraction of the EMA that each step keeps, in (0, 1).
        ramp: Whether the decay starts lower.
        every: Steps between updates.
        location: Whether the EMA is stored on the weights' device or in host memory; the numbers
            are the same.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        *,
        decay: float,
        ramp: bool,
        every: int,
        location: Literal["device", "host"],
    ) -> None:
        self._weights = dict(parameters)
        self._decay = decay
        self._ramp = ramp
        self._every = every
        self._averages = {
            name: _copy(weight.detach(), location) for name, weight in self._weights.items()
        }

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Update the EMA after a step, numbered from 1, if an update is due.

        A broken step has changed no weight, so the EMA approaches those before it.
        """
        if step % self._every:
            return
        decay = min(self._decay, (1 + step) / (10 + step)) if self._ramp else self._decay
        fraction = 1.0 - decay**self._every
        names = {weight: name for name, weight in self._weights.items()}
        for chunk in chunked(list(self._weights.values())):
            averages = [self._averages[names[weight]] for weight in chunk]
            # Those in host memory are copied to the device and back, in the order of its queue:
            # nothing waits, and the numbers are those of an EMA on the device.
            on_device = [
                average.to(weight.device, non_blocking=weight.is_cuda)
                for average, weight in zip(averages, chunk, strict=True)
            ]
            torch._foreach_lerp_(on_device, [weight.float() for weight in chunk], fraction)
            for average, updated in zip(averages, on_device, strict=True):
                if average is not updated:
                    average.copy_(updated, non_blocking=updated.is_cuda)

    @contextmanager
    def applied(self, normalize: Callable[[], None] | None = None) -> Iterator[None]:
        """Set the weights to the EMA, in their own dtype, and restore them on exit.

        normalize: called once the weights are the EMA, to do what follows each training step.
        """
        with restoring(list(self._weights.values())):
            with torch.no_grad():
                for name, weight in self._weights.items():
                    weight.copy_(self._averages[name])
            if normalize is not None:
                normalize()
            yield

    @contextmanager
    def applied_float32(self) -> Iterator[None]:
        """Make the EMA's own float32 memory the weights' data, and undo that on exit.

        For reading only, since it may be on another device: no number is copied or rounded.
        """
        averages = self.state_dict()
        before = [(weight, weight.data) for weight in self._weights.values()]
        try:
            for name, weight in self._weights.items():
                weight.data = averages[name]
            yield
        finally:
            for weight, data in before:
                weight.data = data

    @torch.no_grad()
    def restart(self) -> None:
        """Restart the EMA from the current weights."""
        for name, weight in self._weights.items():
            self._averages[name].copy_(weight)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the EMA by weight name, float32."""
        if any(weight.is_cuda for weight in self._weights.values()):
            torch.cuda.synchronize()  # copies to host memory may be incomplete
        return dict(self._averages)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the EMA. Raises ValueError if names or shapes differ from `state_dict`."""
        load_tensors(self._averages, state, "weights of the EMA")


@contextmanager
def restoring(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Allow overwriting the weights, and restore them bit for bit on exit.

    The copies are in host memory, where there is more room.
    """
    # `copy`, because otherwise a weight in host memory would be its own copy.
    copies = [weight.detach().to("cpu", copy=True) for weight in parameters]
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, value in zip(parameters, copies, strict=True):
                weight.copy_(value)


def _copy(weight: Tensor, location: Literal["device", "host"]) -> Tensor:
    """Return a float32 copy, never the weight itself."""
    if location == "device":
        return weight.to(torch.float32, copy=True)
    # Pinned, so that copies to the device and back make nothing wait.
    host = torch.empty(weight.shape, dtype=torch.float32, device="cpu", pin_memory=weight.is_cuda)
    return host.copy_(weight)
