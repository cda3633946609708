"""Random numbers as a function of seed, purpose and position only.

Every draw gets a new generator, so a resumed run, a run with other microbatches and a run with
validation between its steps all draw the same numbers.
"""

import torch

from onetrainer.seeds import derive

__all__ = ["derive", "generator"]


def generator(seed: int, purpose: str, *position: int) -> torch.Generator:
    """Return a new generator for one draw, on the CPU: every device gets the same numbers."""
    return torch.Generator().manual_seed(derive(seed, purpose, *position))
