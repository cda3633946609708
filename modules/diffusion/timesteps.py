"""Sampling of training timesteps."""

from collections.abc import Sequence

import torch
from torch import Tensor

from onetrainer.config.objectives.timesteps import Timesteps, Uniform
from onetrainer.schedules.timestep_density import density


def timestep_table(section: Timesteps, *, steps: int) -> Tensor | None:
    """Return the cumulative timestep distribution, (steps,), float64; None if it is uniform."""
    return None if section == Uniform() else cumulative(density(section, steps))


def cumulative(probabilities: Sequence[float]) -> Tensor:
    """Compute the cumulative distribution of timesteps, (steps,), float64, ending in exactly 1.

    probabilities: of each timestep, not negative; they need not sum to 1.
    """
    summed = torch.tensor(probabilities, dtype=torch.float64).cumsum(0)
    return summed / summed[-1]


def weighted(fractions: Tensor, *, cdf: Tensor) -> Tensor:
    """Sample timesteps by inversion of their cumulative distribution, (n,), int64.

    Timesteps of probability 0 never occur.

    Args:
        fractions: (n,), uniform numbers in [0, 1), float64: float32 has too few numbers near 1 for
            the last of many timesteps.
        cdf: From `cumulative`, on the same device.
    """
    return torch.searchsorted(cdf, fractions, right=True)
