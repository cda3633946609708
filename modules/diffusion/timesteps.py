"""Which timesteps a batch is trained at."""

from collections.abc import Sequence

import torch
from torch import Tensor


def uniform(count: int, *, steps: int, generator: torch.Generator) -> Tensor:
    """Timesteps drawn evenly from [0, steps): (count,), int64, on the generator's device."""
    return torch.randint(0, steps, (count,), generator=generator, device=generator.device)


def cumulative(probabilities: Sequence[float]) -> Tensor:
    """The share of draws up to each timestep, (steps,), float64, ending in exactly 1.

    probabilities: of each timestep, not negative; they need not add up to 1.
    """
    summed = torch.tensor(probabilities, dtype=torch.float64).cumsum(0)
    return summed / summed[-1]


def weighted(count: int, *, below: Tensor, generator: torch.Generator) -> Tensor:
    """Timesteps drawn as often as `cumulative` says, by its inverse: (count,), int64.

    below: on the generator's device. A timestep of probability 0 is never drawn.
    """
    # In float64: float32 has too few numbers near 1 for the last of many timesteps.
    level = torch.rand(count, generator=generator, dtype=torch.float64, device=generator.device)
    return torch.searchsorted(below, level, right=True)
