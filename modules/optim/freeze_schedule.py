"""Freeze schedule: steps after which some weights stop training while others continue."""

from collections.abc import Sequence
from dataclasses import dataclass

from modules.interfaces import ParameterGroup


@dataclass(frozen=True)
class FreezeSchedule:
    """When each of the trained weights is frozen: `stop_after` of its group."""

    groups: Sequence[ParameterGroup]

    @property
    def end(self) -> int:
        """The step from which all weights are frozen; 0 if some train to the end."""
        ends = [group.stop_after for group in self.groups]
        return 0 if 0 in ends else max(ends, default=0)

    def count(self, step: int) -> int:
        """Return how many groups are frozen in a step, numbered from 0."""
        return sum(0 < group.stop_after <= step for group in self.groups)

    def apply(self, step: int) -> None:
        """Freeze what is due before a step, numbered from 0.

        Every optimizer skips a weight without gradient: neither weight decay nor momentum changes
        it, and nothing is computed for it. Must not be called from `end` on, when no weight would
        have a gradient.
        """
        due = [group for group in self.groups if 0 < group.stop_after <= step]
        for weight in (weight for group in due for weight in group.parameters.values()):
            if weight.requires_grad:
                weight.requires_grad_(False)
                weight.grad = None
