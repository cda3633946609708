"""Gradients in memory that stays the same from step to step."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class StaticGradients:
    """Memory to which the microbatches of a step add their gradients.

    It begins as -0.0: the sum with it is the other term, bit for bit, as if there had been nothing.
    """

    def __init__(self, weights: Sequence[nn.Parameter]) -> None:
        self._weights = weights
        self._memory: dict[nn.Parameter, Tensor] = {}

    @torch.no_grad()
    def begin(self) -> None:
        """Give every weight of which a step has had a gradient its memory."""
        trained = [weight for weight in self._memory if weight.requires_grad]
        for weight in trained:
            weight.grad = self._memory[weight]
        if trained:
            memory = [self._memory[weight] for weight in trained]
            torch._foreach_zero_(memory)
            torch._foreach_neg_(memory)

    def are_set(self) -> bool:
        """Return whether all gradients that there are lie in that memory."""
        with_gradient = [weight for weight in self._weights if weight.grad is not None]
        return bool(with_gradient) and all(
            weight.grad is self._memory.get(weight) for weight in with_gradient
        )

    def learn(self) -> None:
        """Make memory for the gradients that there are now; for later steps."""
        for weight in self._weights:
            if weight.grad is not None and weight not in self._memory:
                self._memory[weight] = torch.empty_like(weight.grad)
