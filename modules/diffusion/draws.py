"""Random draws for the images of a microbatch, each seeded by its position in the step."""

from collections.abc import Iterator
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

    def generators(self, purpose: str) -> Iterator[torch.Generator]:
        """Yield a generator for each image: the same object, seeded anew for the next one."""
        generator = torch.Generator()
        for position in self.positions:
            yield generator.manual_seed(seeds.derive(self.seed, purpose, self.step, position))

    def normal(self, purpose: str, shape: torch.Size) -> Tensor:
        """Draw standard normal noise, (B, *shape), float32."""
        noises = torch.empty(len(self.positions), *shape)
        for noise, generator in self._each(noises, purpose):
            noise.normal_(generator=generator)
        return noises

    def integers(self, purpose: str, below: int) -> Tensor:
        """Draw a whole number in [0, below) for each image, (B,), int64."""
        numbers = torch.empty(len(self.positions), dtype=torch.int64)
        for number, generator in self._each(numbers, purpose):
            number.random_(0, below, generator=generator)
        return numbers

    def fractions(self, purpose: str) -> Tensor:
        """Draw a uniform number in [0, 1) for each image, (B,), float64."""
        numbers = torch.empty(len(self.positions), dtype=torch.float64)
        for number, generator in self._each(numbers, purpose):
            number.uniform_(generator=generator)
        return numbers

    def chances(self, purpose: str) -> list[float]:
        """Return the numbers of `fractions`."""
        chances: list[float] = self.fractions(purpose).tolist()
        return chances

    def _each(self, tensor: Tensor, purpose: str) -> Iterator[tuple[Tensor, torch.Generator]]:
        """Iterate over each image's part of a tensor, with its generator."""
        return zip(tensor.unbind(), self.generators(purpose), strict=True)
