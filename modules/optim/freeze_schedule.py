"""Freeze schedule: steps after which some weights stop training while others continue."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class FreezePoint:
    """Weights that are frozen from a step on.

    after: how many steps they train; 0 means all.
    """

    parameters: Sequence[nn.Parameter]
    after: int


@dataclass(frozen=True)
class FreezeSchedule:
    """When each of the trained weights is frozen."""

    points: Sequence[FreezePoint]

    @property
    def end(self) -> int:
        """The step from which all weights are frozen; 0 if some train to the end."""
        ends = [point.after for point in self.points]
        return 0 if 0 in ends else max(ends, default=0)

    def apply(self, step: int) -> None:
        """Freeze what is due before a step, numbered from 0.

        Every optimizer skips a weight without gradient: neither weight decay nor momentum changes
        it, and nothing is computed for it. Must not be called from `end` on, when no weight would
        have a gradient.
        """
        due = [point for point in self.points if 0 < point.after <= step]
        for weight in (weight for point in due for weight in point.parameters):
            if weight.requires_grad:
                weight.requires_grad_(False)
                weight.grad = None
