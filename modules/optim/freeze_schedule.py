"""Ends of training for some of the weights, while others go on."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Stop:
    """Weights that stay exactly as they are from a step on.

    after: how many steps they move; 0 means to the end.
    """

    parameters: Sequence[nn.Parameter]
    after: int


@dataclass(frozen=True)
class Stops:
    """The ends of all trained weights."""

    stops: Sequence[Stop]

    @property
    def end(self) -> int:
        """The step from which nothing moves any more; 0 where something moves to the end."""
        ends = [stop.after for stop in self.stops]
        return 0 if 0 in ends else max(ends, default=0)

    def apply(self, step: int) -> None:
        """Freezes what is not to move any more, before a step; step: from 0.

        A weight without gradient is passed over by every optimizer: neither its decay nor its
        momentum moves it, and nothing is computed for it. Not to be called from `end` on: then
        nothing has a gradient.
        """
        over = [stop for stop in self.stops if 0 < stop.after <= step]
        for weight in (weight for stop in over for weight in stop.parameters):
            if weight.requires_grad:
                weight.requires_grad_(False)
                weight.grad = None
