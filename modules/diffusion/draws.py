"""The random draws of a microbatch's pictures, each by its place in the step."""

from dataclasses import dataclass

import torch
from torch import Tensor

from modules import seeds


@dataclass(frozen=True)
class Draws:
    """Draws as functions of (seed, purpose, step, position), so that a step is the same however it
    is cut into microbatches.

    positions: (B,), each picture's place within its step. All draws are made on the CPU.
    """

    seed: int
    step: int
    positions: tuple[int, ...]

    def generators(self, purpose: str) -> list[torch.Generator]:
        """A fresh generator for each picture."""
        return [
            seeds.generator(self.seed, purpose, self.step, position) for position in self.positions
        ]

    def normal(self, purpose: str, shape: torch.Size) -> Tensor:
        """Normal noise, (B, *shape), float32."""
        return torch.stack(
            [torch.randn(shape, generator=generator) for generator in self.generators(purpose)]
        )

    def chances(self, purpose: str) -> list[float]:
        """A number in [0, 1) for each picture."""
        return [
            float(torch.rand((), generator=generator, dtype=torch.float64))
            for generator in self.generators(purpose)
        ]
