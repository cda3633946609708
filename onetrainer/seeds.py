"""Random numbers as a function of (seed, purpose, position), never of what was drawn before."""

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def derive(seed: int, purpose: str, *position: int | str) -> int:
    """A 63-bit seed that differs for every purpose and position (SHA-256 of the tuple)."""
    text = ":".join([str(seed), purpose, *map(str, position)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def draws(seed: int, purpose: str, *position: int | str) -> random.Random:
    """Fresh random numbers for one purpose and position.

    Of its methods only `random()` gives the same numbers in every version of Python.
    """
    return random.Random(derive(seed, purpose, *position))


def shuffled(values: Sequence[T], seed: int) -> list[T]:
    """In the order of a random number each.

    Not `shuffle`: Python promises that `random()` gives the same numbers from a seed in every
    version, and promises nothing of the functions built on it.
    """
    numbers = random.Random(seed)
    keys = [numbers.random() for _ in values]
    return [value for _, _, value in sorted(zip(keys, range(len(keys)), values, strict=True))]
