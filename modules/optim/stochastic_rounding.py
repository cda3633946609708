"""Stochastic rounding: weights in bfloat16 that move as if they were float32, on average.

bfloat16 has 8 significant bits: a weight of 1 cannot move by less than 1/256, and nearest rounding
loses every smaller change. Rounded up or down by chance, in proportion to the distances, it moves
by the right amount in expectation. Source: Gupta et al. 2015, arXiv:1502.02551, section 3.1.
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
    """exact: float32. Returns bfloat16: one of each value's two neighbors, whose mean it is.

    What bfloat16 can represent stays as it is, infinities and NaN too.
    generator: on the device of `exact`.
    """
    noise = torch.randint(
        0,
        1 << LOWER_BITS,
        exact.shape,
        dtype=torch.int32,
        device=exact.device,
        generator=generator,
    )
    # The sign is apart, so a carry moves a value away from zero, into the exponent if need be.
    noise.add_(exact.contiguous().view(torch.int32)).bitwise_and_(UPPER_HALF)
    rounded = noise.view(torch.float32).to(torch.bfloat16)
    # A carry may turn a NaN's bits into a number's.
    return torch.where(torch.isnan(exact), exact.to(torch.bfloat16), rounded)


@contextmanager
def rounded(parameters: Mapping[int, nn.Parameter], *, seed: int, step: int) -> Iterator[None]:
    """Within, bfloat16 weights and their gradients are float32; after, they are rounded by chance.

    parameters: by their numbers, which together with seed and step decide the chance. Those without
    a gradient, or of another dtype, are left alone.
    """

    def narrow(number: int, wide: Tensor) -> Tensor:
        generator = torch.Generator(wide.device)
        generator.manual_seed(seeds.derive(seed, "rounding", step, number))
        return round_stochastically(wide, generator)

    moving = {number: weight for number, weight in parameters.items() if weight.grad is not None}
    with _widened(moving, narrow):
        yield


@contextmanager
def widened(parameters: Mapping[int, nn.Parameter]) -> Iterator[None]:
    """Within, bfloat16 weights are float32; after, they are rounded to the nearest."""
    with _widened(parameters, lambda _number, wide: wide.to(torch.bfloat16)):
        yield


@contextmanager
def _widened(
    parameters: Mapping[int, nn.Parameter], narrow: Callable[[int, Tensor], Tensor]
) -> Iterator[None]:
    held = [
        (number, weight, weight.data, weight.grad)
        for number, weight in parameters.items()
        if weight.dtype == torch.bfloat16
    ]
    for _, weight, data, grad in held:
        weight.grad = None  # a gradient has to have its weight's dtype
        weight.data = data.float()
        weight.grad = None if grad is None else grad.float()
    results: dict[int, Tensor] = {}
    try:
        yield
        results = {number: narrow(number, weight.data) for number, weight, _, _ in held}
    finally:
        for number, weight, data, grad in held:
            weight.grad = None
            weight.data = data
            weight.grad = grad
            if number in results:
                with torch.no_grad():
                    # Into the weight itself, so that autograd sees that it has changed.
                    weight.copy_(results[number])
