"""The random numbers of stochastic rounding: a function of seed, step, weight and place.

They come from a counter and a hash, not from a generator: any part of them can be computed alone,
in any order, on any device, with the same bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from modules import seeds

BITS = 16
MAX_POSITIONS = 1 << 22
"""Positions at which a weight's numbers may begin in a step's table: 16 MB of it."""
_WORD = 1 << 32


@dataclass(frozen=True)
class Extent:
    """Which numbers of a whole weight a parameter has; another process has the others.

    Attributes:
        first: Place of the first one in the whole weight.
        size: How many numbers the whole weight has.
    """

    first: int
    size: int


class RoundingNoise:
    """The noise of one step.

    Every weight reads a part of one table, which begins elsewhere in each step. Two numbers of a
    model share their noise in one step of millions, and other two in the next.
    """

    def __init__(
        self,
        seed: int,
        step: int,
        *,
        weights: int,
        largest: int,
        firsts: Mapping[int, int] | None = None,
    ) -> None:
        """Choose the noise of a step.

        Args:
            seed: Of the run.
            step: The number of the step.
            weights: How many numbers are trained.
            largest: How many numbers the largest weight has.
            firsts: Where parameters begin in their whole weights, by number; None where all are
                whole.
        """
        self._key = seeds.derive(seed, "rounding", step)
        self._stride = seeds.derive(seed, "rounding starts", step) | 1
        self._positions = min(MAX_POSITIONS, 1 << max(weights - 1, 1).bit_length())
        self._firsts = firsts or {}
        self._length = self._positions + largest
        self._tables: dict[torch.device, Tensor] = {}

    def of(self, number: int, weight: Tensor) -> Tensor:
        """Return a weight's noise, (n,), int32, uniform in [0, 65536), on its device.

        number: The weight's, among all that are trained.
        """
        if weight.device not in self._tables:
            self._tables[weight.device] = uniform_bits(self._key, self._length, weight.device)
        start = (number + 1) * self._stride % self._positions + self._firsts.get(number, 0)
        return self._tables[weight.device][start : start + weight.numel()]


def uniform_bits(key: int, count: int, device: torch.device) -> Tensor:
    """Return the hashes of a key with 0, 1 … count - 1: (count,), int32, in [0, 65536).

    Multiples of an odd number from the key, in the finalizer of MurmurHash3 (Appleby 2011).
    """
    numbers = torch.arange(count, dtype=torch.int32, device=device)
    numbers.mul_(_signed(key | 1)).add_(_signed(key >> 31))  # products wrap around at 32 bits
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        numbers.bitwise_xor_(_shifted(numbers, shift)).mul_(_signed(factor))
    return numbers.bitwise_xor_(_shifted(numbers, 16)).bitwise_and_((1 << BITS) - 1)


def _shifted(numbers: Tensor, bits: int) -> Tensor:
    """Shift to the right as if without a sign."""
    return (numbers >> bits).bitwise_and_((1 << (32 - bits)) - 1)


def _signed(value: int) -> int:
    """Return the lower 32 bits as int32 has them."""
    lower = value % _WORD
    return lower - _WORD if lower >= _WORD // 2 else lower
