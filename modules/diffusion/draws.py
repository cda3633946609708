"""Random draws for the images of a microbatch, each seeded by its position in the step."""

from dataclasses import dataclass

import torch
from torch import Tensor

from modules import seeds


@dataclass(frozen=True)
class Draws:
    """Draws as functions of (seed, purpose, step, position), independent of microbatch size.

    positions: (B,), each image's position within its step. All draws are made on the CPU.
    """

    seed: int
    step: int
    positions: tuple[int, ...]

    def generators(self, purpose: str) -> list[torch.Generator]:
        """Return a new generator for each image."""
        return [
            seeds.generator(self.seed, purpose, self.step, position) for position in self.positions
        ]

    def normal(self, purpose: str, shape: torch.Size) -> Tensor:
        """Draw standard normal noise, (B, *shape), float32."""
        noises = torch.empty(len(self.positions), *shape)
        for noise, generator in zip(noises.unbind(), self.generators(purpose), strict=True):
            noise.normal_(generator=generator)
        return noises

    def chances(self, purpose: str) -> list[float]:
        """Draw a uniform number in [0, 1) for each image."""
        return [
            float(torch.rand((), generator=generator, dtype=torch.float64))
            for generator in self.generators(purpose)
        ]
