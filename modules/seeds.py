"""Random numbers as a function of seed, purpose and position only.

Every draw gets a new generator, so a resumed run, a run with other microbatches and a run with
validation between its steps all draw the same numbers.
"""

import torch

from onetrainer.seeds import derive

__all__ = ["derive", "generator", "seed_global_generators"]


def generator(seed: int, purpose: str, *position: int) -> torch.Generator:
    """Return a new generator for one draw, on the CPU: every device gets the same numbers."""
    return torch.Generator().manual_seed(derive(seed, purpose, *position))


def seed_global_generators(seed: int) -> None:
    """Seed the generators that dropout draws from, on every device in use.

    torch.manual_seed does it too, but prepares for GPUs that are not in use by formatting a stack
    trace, which takes longer than all else that surrounds a small model's step.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call] # torch's
        torch.cuda.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)
