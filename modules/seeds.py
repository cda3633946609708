"""Random numbers as a function of (seed, purpose, position), never of what ran before.

A generator is made anew for every draw, so a resumed run, a run with other micro-batches and a
run with validation between its steps all draw the same numbers.
"""

import torch

from onetrainer.seeds import derive

__all__ = ["derive", "generator"]


def generator(seed: int, purpose: str, *position: int) -> torch.Generator:
    """A fresh CPU generator for one draw; CPU so that every device draws the same numbers."""
    return torch.Generator().manual_seed(derive(seed, purpose, *position))
