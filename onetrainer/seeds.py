"""Orders that come from a seed alone."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def shuffled(values: Sequence[T], seed: int) -> list[T]:
    """In the order of a random number each.

    Not `shuffle`: Python promises that `random()` gives the same numbers from a seed in every
    version, and promises nothing of the functions built on it.
    """
    numbers = random.Random(seed)
    keys = [numbers.random() for _ in values]
    return [value for _, _, value in sorted(zip(keys, range(len(keys)), values, strict=True))]
