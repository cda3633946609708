"""Sampling of training timesteps."""

from collections.abc import Sequence

import torch
from torch import Tensor

from onetrainer.config.objectives.timesteps import Timesteps, Uniform
from onetrainer.schedules.timestep_density import density


def timestep_table(section: Timesteps, *, steps: int) -> Tensor | None:
    """Return the cumulative timestep distribution, (steps,), float64; None if it is uniform."""
    return None if section == Uniform() else cumulative(density(section, steps))


def uniform(count: int, *, steps: int, generator: torch.Generator) -> Tensor:
    """Sample timesteps uniformly from [0, steps): (count,), int64, on the generator's device."""
    return torch.randint(0, steps, (count,), generator=generator, device=generator.device)


def cumulative(probabilities: Sequence[float]) -> Tensor:
    """Compute the cumulative distribution of timesteps, (steps,), float64, ending in exactly 1.

    probabilities: of each timestep, not negative; they need not sum to 1.
    """
    summed = torch.tensor(probabilities, dtype=torch.float64).cumsum(0)
    return summed / summed[-1]


def weighted(count: int, *, cdf: Tensor, generator: torch.Generator) -> Tensor:
    """Sample timesteps by inversion of their cumulative distribution: (count,), int64.

    cdf: from `cumulative`, on the generator's device. Timesteps of probability 0 never occur.
    """
    # In float64: float32 has too few numbers near 1 for the last of many timesteps.
    level = torch.rand(count, generator=generator, dtype=torch.float64, device=generator.device)
    return torch.searchsorted(cdf, level, right=True)
