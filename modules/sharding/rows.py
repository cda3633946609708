"""Which rows of a weight each process has, as FSDP divides them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from modules.optim.rounding_noise import Extent
from modules.world.world import World


@dataclass(frozen=True)
class Rows:
    """The rows of a weight that one process has; none in the last ones of a small weight.

    Attributes:
        shape: Of the whole weight.
        first: Number of the first row.
        count: How many rows.
        most: How many the first process has, which has the most.
    """

    shape: torch.Size
    first: int
    count: int
    most: int

    @staticmethod
    def of(shape: torch.Size, world: World) -> "Rows":
        """Return the rows of this process."""
        most = -(-shape[0] // world.size)
        first = min(world.rank * most, shape[0])
        return Rows(shape, first, min(most, shape[0] - first), most)

    @property
    def extent(self) -> Extent:
        """Which of the weight's numbers these are."""
        return Extent(self.first * self.shape[1:].numel(), self.shape.numel())

    def cut(self, whole: Tensor) -> Tensor:
        """Return a copy of these rows of a whole tensor.

        Raises:
            ValueError: If it has another shape.
        """
        if whole.shape != self.shape:
            raise ValueError(f"{tuple(whole.shape)} instead of {tuple(self.shape)}")
        return whole[self.first : self.first + self.count].clone()

    def joined(self, own: Tensor, world: World) -> Tensor:
        """Return the whole tensor in RAM in rank 0, and this process's rows in the others."""
        padded = own.new_zeros((self.most, *self.shape[1:]))
        padded[: self.count] = own
        every = world.gather(padded)
        return every.flatten(0, 1)[: self.shape[0]].cpu() if world.is_first else own
