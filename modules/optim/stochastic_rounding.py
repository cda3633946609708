"""Stochastic rounding: weights in bfloat16 that train like float32 ones on average.

bfloat16 has 8 significant bits: a weight of 1 cannot change by less than 1/256, and rounding to
the nearest loses every smaller update. Rounded up or down at random, in proportion to the
distances, it changes by the right amount in expectation.
Source: Gupta et al. 2015, arXiv:1502.02551, section 3.1.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from modules import seeds

# bfloat16 is the upper half of a float32: sign, exponent and 7 bits of the fraction.
LOWER_BITS = 16
UPPER_HALF = -(1 << LOWER_BITS)


def round_stochastically(exact: Tensor, generator: torch.Generator) -> Tensor:
    """Round to one of each value's two bfloat16 neighbors, with the value as expectation.

    What bfloat16 can represent stays unchanged, including infinities and NaN.

    Args:
        exact: Any shape, float32.
        generator: On the device of `exact`.
    """
    noise = torch.randint(
        0,
        1 << LOWER_BITS,
        exact.shape,
        dtype=torch.int32,
        device=exact.device,
        generator=generator,
    )
    # The sign is a separate bit, so a carry moves a value away from zero, if need be into the
    # exponent.
    noise.add_(exact.contiguous().view(torch.int32)).bitwise_and_(UPPER_HALF)
    rounded = noise.view(torch.float32).to(torch.bfloat16)
    # A carry may turn a NaN's bits into a number's.
    return torch.where(torch.isnan(exact), exact.to(torch.bfloat16), rounded)


@contextmanager
def stochastic_rounding(
    parameters: Mapping[int, nn.Parameter], *, seed: int, step: int
) -> Iterator[None]:
    """Make bfloat16 weights and their gradients float32, and round stochastically on exit.

    Args:
        parameters: By their numbers, which seed the rounding together with seed and step. Those
            without a gradient, or of another dtype, are left alone.
        seed: Of the run.
        step: The number of the step.
    """

    def narrow(number: int, wide: Tensor) -> Tensor:
        generator = torch.Generator(wide.device)
        generator.manual_seed(seeds.derive(seed, "rounding", step, number))
        return round_stochastically(wide, generator)

    updated = {number: weight for number, weight in parameters.items() if weight.grad is not None}
    with _widened(updated, narrow):
        yield


@contextmanager
def in_float32(parameters: Mapping[int, nn.Parameter]) -> Iterator[None]:
    """Make bfloat16 weights float32, and round to the nearest on exit."""
    with _widened(parameters, lambda _number, wide: wide.to(torch.bfloat16)):
        yield


@contextmanager
def _widened(
    parameters: Mapping[int, nn.Parameter], narrow: Callable[[int, Tensor], Tensor]
) -> Iterator[None]:
    before = [
        (number, weight, weight.data, weight.grad)
        for number, weight in parameters.items()
        if weight.dtype == torch.bfloat16
    ]
    for _, weight, data, grad in before:
        weight.grad = None  # a gradient must have its weight's dtype
        weight.data = data.float()
        weight.grad = None if grad is None else grad.float()
    results: dict[int, Tensor] = {}
    try:
        yield
        results = {number: narrow(number, weight.data) for number, weight, _, _ in before}
    finally:
        for number, weight, data, grad in before:
            weight.grad = None
            weight.data = data
            weight.grad = grad
            if number in results:
                with torch.no_grad():
                    # In place, so that autograd sees the change.
                    weight.copy_(results[number])
