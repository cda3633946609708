"""Layers whose weights wait on the temporary device, and visit the other one to be computed.

The layer is computed with copies in place of its weights; no weight's own memory is exchanged.
Adapters on its inner layers find the copies, too, since they read the weight from the layer.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.func import functional_call

from modules.memory.layers.transfer import WeightTransfer

OUTSIDE_BACKWARD = -1


class OffloadedForward:
    """A layer's forward with weights that are fetched for each call and forgotten after it.

    In a checkpoint they are fetched once more when it is computed again. Gradients of weights that
    train arrive where the weights are.
    neighbors: of the layers that are offloaded, the ones before and after this one; the next to be
    computed is on its way while this one is.
    """

    def __init__(
        self, layer: nn.Module, forward: Callable[..., Any], transfer: WeightTransfer
    ) -> None:
        self._alone = _Alone(layer, forward)
        self._transfer = transfer
        self.weights = list(layer.parameters())
        self._names = [
            (name, self._place(weight))
            for name, weight in self._alone.named_parameters(remove_duplicate=False)
        ]
        self.before: Sequence[nn.Parameter] = ()
        self.after: Sequence[nn.Parameter] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # any layer's
        copies = self._fetched()
        is_backward = torch._C._current_graph_task_id() != OUTSIDE_BACKWARD
        self._transfer.prefetch(self.before if is_backward else self.after)
        named = {name: copies[place] for name, place in self._names}
        del copies
        return functional_call(self._alone, named, args, kwargs, tie_weights=False)

    def _fetched(self) -> list[Tensor]:
        """Copies of all weights, in their order."""
        train = [weight.requires_grad and torch.is_grad_enabled() for weight in self.weights]
        trained = list(compress(self.weights, train))
        fetched = iter(_Fetched.apply(self._transfer, *trained) if trained else ())  # type: ignore[no-untyped-call] # torch's
        return [
            next(fetched) if trains else self._transfer.to_device(weight)
            for weight, trains in zip(self.weights, train, strict=True)
        ]

    def _place(self, weight: nn.Parameter) -> int:
        return next(place for place, own in enumerate(self.weights) if own is weight)


class _Alone(nn.Module):
    """A layer by the name "layer", called by its own forward.

    `functional_call` calls a module, and calling the layer itself would come back here.
    """

    def __init__(self, layer: nn.Module, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.layer = layer
        self._own = forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # any layer's
        return self._own(*args, **kwargs)


class _Fetched(torch.autograd.Function):
    """Copies of a layer's trained weights; their gradients go to where the weights are.

    All at once, so that the processor waits for the card once a layer, and not for each.
    """

    @staticmethod
    def forward(
        ctx: BackwardCFunction, transfer: WeightTransfer, *weights: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.transfer = transfer  # type: ignore[attr-defined]  # as torch's documentation does it
        # A weight that was not used has no gradient, and does not get zeros.
        ctx.set_materialize_grads(False)
        return tuple(map(transfer.to_device, weights))

    @staticmethod
    def backward(
        ctx: BackwardCFunction, *gradients: Tensor | None
    ) -> tuple[None, *tuple[Tensor | None, ...]]:
        transfer: WeightTransfer = ctx.transfer  # type: ignore[attr-defined]  # set above
        arrived = iter(transfer.all_to_host([each for each in gradients if each is not None]))
        return None, *(None if each is None else next(arrived) for each in gradients)
