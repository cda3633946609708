"""A running average of the trained weights, in float32.

Source: Polyak & Juditsky 1992; the ramp is that of TensorFlow's ExponentialMovingAverage.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from modules.optim.swapped_weights import put_back
from modules.optim.update import portions


class Ema:
    """The average of some weights; what it does in a step depends on the step alone.

    parameters: by their names in checkpoints. decay: how much of the average is kept at each step,
    in (0, 1). ramp: whether less of it is kept at first. every: how many steps lie between updates.
    place: whether the average is kept beside the weights or in main memory; the numbers are the
    same.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        *,
        decay: float,
        ramp: bool,
        every: int,
        place: Literal["device", "host"],
    ) -> None:
        self._weights = dict(parameters)
        self._decay = decay
        self._ramp = ramp
        self._every = every
        self._averages = {
            name: _copy(weight.detach(), place) for name, weight in self._weights.items()
        }

    def decay_at(self, step: int) -> float:
        """How much of the average is kept for one step, after so many have been made."""
        return min(self._decay, (1 + step) / (10 + step)) if self._ramp else self._decay

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Takes the weights in after a step, if it is time. step: made so far, from 1."""
        if step % self._every:
            return
        share = 1.0 - self.decay_at(step) ** self._every
        names = {weight: name for name, weight in self._weights.items()}
        for portion in portions(list(self._weights.values())):
            averages = [self._averages[names[weight]] for weight in portion]
            # What is in main memory visits the device and goes back, in the order of the device's
            # queue: nobody waits, and the numbers are those of an average on the device.
            near = [
                average.to(weight.device, non_blocking=True)
                for average, weight in zip(averages, portion, strict=True)
            ]
            torch._foreach_lerp_(near, [weight.float() for weight in portion], share)
            for average, moved in zip(averages, near, strict=True):
                if average is not moved:
                    average.copy_(moved, non_blocking=True)

    @contextmanager
    def applied(self, keep: Callable[[], None] | None = None) -> Iterator[None]:
        """Within, the weights are the average, in their own dtype; after, what they were.

        keep: changes the weights, once they are the average, into what they have to be.
        """
        with put_back(list(self._weights.values())):
            with torch.no_grad():
                for name, weight in self._weights.items():
                    weight.copy_(self._averages[name])
            if keep is not None:
                keep()
            yield

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Within, the weights are the average's own memory: float32, where it is kept.

        To be read, and not to compute with: no number is copied or rounded. After, the weights
        have the memory that they had.
        """
        averages = self.state_dict()
        kept = [(weight, weight.data) for weight in self._weights.values()]
        try:
            for name, weight in self._weights.items():
                weight.data = averages[name]
            yield
        finally:
            for weight, data in kept:
                weight.data = data

    @torch.no_grad()
    def restart(self) -> None:
        """Begins anew from the weights as they are."""
        for name, weight in self._weights.items():
            self._averages[name].copy_(weight)

    def state_dict(self) -> dict[str, Tensor]:
        """The averages by name, float32."""
        if any(weight.is_cuda for weight in self._weights.values()):
            torch.cuda.synchronize()  # averages in main memory may still be on their way
        return dict(self._averages)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Raises ValueError unless names and shapes are exactly those of `state_dict`."""
        if state.keys() != self._averages.keys():
            other = sorted(state.keys() ^ self._averages.keys())[:4]
            raise ValueError(f"the average is of other weights: {other}")
        for name, average in self._averages.items():
            if average.shape != state[name].shape:
                raise ValueError(f"{name}: {state[name].shape} is not {average.shape}")
            average.copy_(state[name])


def _copy(weight: Tensor, place: Literal["device", "host"]) -> Tensor:
    """A float32 copy that never is the weight itself."""
    if place == "device":
        return weight.to(torch.float32, copy=True)
    # Pinned, so that it moves to the device and back without anybody waiting.
    host = torch.empty(weight.shape, dtype=torch.float32, device="cpu", pin_memory=weight.is_cuda)
    return host.copy_(weight)
