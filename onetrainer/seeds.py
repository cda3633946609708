"""Random numbers derived from (seed, purpose, position), independent of earlier draws."""

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def derive(seed: int, purpose: str, *position: int | str) -> int:
    """Return a 63-bit seed that differs for every purpose and position (SHA-256 of the tuple)."""
    text = ":".join([str(seed), purpose, *map(str, position)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def draws(seed: int, purpose: str, *position: int | str) -> random.Random:
    """Return a new random number generator for one purpose and position.

    Only its `random()` gives the same numbers in every version of Python.
    """
    return random.Random(derive(seed, purpose, *position))


def shuffled(values: Sequence[T], seed: int) -> list[T]:
    """Return the values in a random order.

    Sorts by one random number per value instead of using `shuffle`: Python guarantees the sequence
    of `random()` in every version, but not that of the functions built on it.
    """
    numbers = random.Random(seed)
    keys = [numbers.random() for _ in values]
    return [value for _, _, value in sorted(zip(keys, range(len(keys)), values, strict=True))]
