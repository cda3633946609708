"""Random numbers as a function of (seed, purpose, position), never of what ran before.

A generator is made anew for every draw, so a resumed run, a run with other micro-batches and a
run with validation between its steps all draw the same numbers.
"""

import hashlib

import torch


def derive(seed: int, purpose: str, *position: int) -> int:
    """A 63-bit seed that differs for every purpose and position (SHA-256 of the tuple)."""
    text = ":".join([str(seed), purpose, *map(str, position)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, purpose: str, *position: int) -> torch.Generator:
    """A fresh CPU generator for one draw; CPU so that every device draws the same numbers."""
    return torch.Generator().manual_seed(derive(seed, purpose, *position))
