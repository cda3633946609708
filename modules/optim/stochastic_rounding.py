"""Stochastic rounding: weights in bfloat16 that train like float32 ones on average.

bfloat16 has 8 significant bits: a weight of 1 cannot change by less than 1/256, and rounding to
the nearest loses every smaller update. Rounded up or down at random, in proportion to the
distances, it changes by the right amount in expectation.
Source: Gupta et al. 2015, arXiv:1502.02551, section 3.1.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from modules.optim.rounding_noise import RoundingNoise

# bfloat16 is the upper half of a float32: sign, exponent and 7 bits of the fraction.
LOWER_BITS = 16
UPPER_HALF = -(1 << LOWER_BITS)
_ALIGNMENT = 64  # numbers: kernels read several at once where they begin at such a place


@torch.no_grad()
def round_stochastically(exact: Tensor, parts: Sequence[Tensor], noise: Sequence[Tensor]) -> None:
    """Round numbers in place to one of their two bfloat16 neighbors, with them as expectation.

    What bfloat16 can represent stays unchanged, including infinities and NaN.

    Args:
        exact: (n,), float32.
        parts: Parts of `exact` as int32, (n_i,) each.
        noise: Of each part, (n_i,), int32, uniform in [0, 65536).
    """
    is_nan = exact.isnan()
    # The sign is a separate bit, so a carry moves a value away from zero, if need be into the
    # exponent.
    torch._foreach_add_(list(parts), list(noise))
    exact.view(torch.int32).bitwise_and_(UPPER_HALF)
    # A carry may have turned a NaN's bits into a number's.
    exact.masked_fill_(is_nan, torch.nan)


@contextmanager
def stochastic_rounding(
    parameters: Mapping[int, nn.Parameter], noise: RoundingNoise
) -> Iterator[None]:
    """Make bfloat16 weights and their gradients float32, and round stochastically on exit.

    Args:
        parameters: By their numbers, which choose their noise. Those without a gradient, or of
            another dtype, are left alone.
        noise: Of the step.
    """
    updated = {number: weight for number, weight in parameters.items() if weight.grad is not None}
    with _widened(updated) as copies:
        yield
    for each in copies:
        each.round(noise)
        each.write_back()


@contextmanager
def in_float32(parameters: Mapping[int, nn.Parameter]) -> Iterator[None]:
    """Make bfloat16 weights float32, and round to the nearest on exit."""
    with _widened(parameters) as copies:
        yield
    for each in copies:
        each.write_back()


@dataclass(frozen=True)
class _Copies:
    """Float32 copies of one device's weights, in one piece of memory.

    Attributes:
        flat: The memory, (n,).
        starts: Where each weight begins in it.
    """

    numbers: Sequence[int]
    weights: Sequence[nn.Parameter]
    flat: Tensor
    starts: Sequence[int]
    views: Sequence[Tensor]

    @staticmethod
    def of(parameters: Mapping[int, nn.Parameter]) -> "_Copies":
        weights = list(parameters.values())
        flat, starts, views = _copied(weights)
        return _Copies(list(parameters), weights, flat, starts, views)

    def put_in_place(self) -> None:
        """Make these the weights' values, and float32 copies of their gradients the gradients."""
        gradients = {weight: weight.grad for weight in self.weights if weight.grad is not None}
        _, _, exact = _copied(list(gradients.values()))
        for weight, view in zip(self.weights, self.views, strict=True):
            weight.grad = None  # a gradient must have its weight's dtype
            weight.data = view
        for weight, gradient in zip(gradients, exact, strict=True):
            weight.grad = gradient

    def round(self, noise: RoundingNoise) -> None:
        bits = self.flat.view(torch.int32)
        parts = [
            bits[start : start + weight.numel()]
            for start, weight in zip(self.starts, self.weights, strict=True)
        ]
        numbered = zip(self.numbers, self.weights, strict=True)
        round_stochastically(self.flat, parts, [noise.of(*each) for each in numbered])

    @torch.no_grad()
    def write_back(self) -> None:
        # In place, so that autograd sees the change.
        torch._foreach_copy_(list(self.weights), list(self.views))


@contextmanager
def _widened(parameters: Mapping[int, nn.Parameter]) -> Iterator[list[_Copies]]:
    """Give bfloat16 weights float32 values and gradients within; yield these, by device.

    Within, weights are changed in place. Afterwards they are as before.
    """
    by_device: dict[torch.device, dict[int, nn.Parameter]] = {}
    for number, weight in parameters.items():
        if weight.dtype == torch.bfloat16:
            by_device.setdefault(weight.device, {})[number] = weight
    copies = [_Copies.of(own) for own in by_device.values()]
    before = [(weight, weight.data, weight.grad) for each in copies for weight in each.weights]
    for each in copies:
        each.put_in_place()
    try:
        yield copies
        for each in copies:
            for weight, view in zip(each.weights, each.views, strict=True):
                if weight.data.data_ptr() != view.data_ptr():
                    view.copy_(weight.data)  # an optimizer has put a new tensor in its place
    finally:
        for weight, data, grad in before:
            weight.grad = None
            weight.data = data
            weight.grad = grad


@torch.no_grad()
def _copied(tensors: Sequence[Tensor]) -> tuple[Tensor, list[int], list[Tensor]]:
    """Copy tensors of one device to float32, into one piece of memory, where each begins there."""
    starts, end = [], 0
    for tensor in tensors:
        starts.append(end)
        end += -(-tensor.numel() // _ALIGNMENT) * _ALIGNMENT
    device = tensors[0].device if tensors else None
    flat = torch.empty(end, dtype=torch.float32, device=device)
    views = [
        flat.as_strided(tensor.shape, tensor.stride(), start)
        for tensor, start in zip(tensors, starts, strict=True)
    ]
    if views:
        torch._foreach_copy_(views, list(tensors))
    return flat, starts, views
