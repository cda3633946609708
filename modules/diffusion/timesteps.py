"""Which timesteps a batch is trained at."""

import torch
from torch import Tensor


def uniform(count: int, *, steps: int, generator: torch.Generator) -> Tensor:
    """Timesteps drawn evenly from [0, steps): (count,), int64, on the generator's device."""
    return torch.randint(0, steps, (count,), generator=generator, device=generator.device)
