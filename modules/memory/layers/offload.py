"""Offloaded layers: weights on the offload device, copied to the train device for each use.

The layer computes with copies in place of its weights; no weight's own memory is replaced.
Adapters on its inner layers use the copies, too, since they read the weight from the layer.
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
    """A layer's forward with weights that are fetched for each call and freed after it.

    In a checkpoint they are fetched once more for the recomputation. Gradients of trainable
    weights are copied to where the weights are.
    before, after: the weights of the neighboring offloaded layers; those of the next to compute
    are prefetched while this one computes.
    """

    def __init__(
        self, layer: nn.Module, forward: Callable[..., Any], transfer: WeightTransfer
    ) -> None:
        self._layer = _WithForward(layer, forward)
        self._transfer = transfer
        self.weights = list(layer.parameters())
        indices = {id(weight): index for index, weight in enumerate(self.weights)}
        self._names = [
            (name, indices[id(weight)])
            for name, weight in self._layer.named_parameters(remove_duplicate=False)
        ]
        self.before: Sequence[nn.Parameter] = ()
        self.after: Sequence[nn.Parameter] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # any layer's
        copies = self._fetch()
        is_backward = torch._C._current_graph_task_id() != OUTSIDE_BACKWARD
        self._transfer.prefetch(self.before if is_backward else self.after)
        named = {name: copies[index] for name, index in self._names}
        del copies
        return functional_call(self._layer, named, args, kwargs, tie_weights=False)

    def _fetch(self) -> list[Tensor]:
        """Return copies of all weights, in their order."""
        train = [weight.requires_grad and torch.is_grad_enabled() for weight in self.weights]
        trained = list(compress(self.weights, train))
        fetched = iter(_Fetch.apply(self._transfer, *trained) if trained else ())  # type: ignore[no-untyped-call] # torch's
        return [
            next(fetched) if trains else self._transfer.to_device(weight)
            for weight, trains in zip(self.weights, train, strict=True)
        ]


class _WithForward(nn.Module):
    """A module with a layer as its child "layer", and that layer's own forward as its forward.

    `functional_call` calls a module, and calling the layer itself would recurse into
    `OffloadedForward`.
    """

    def __init__(self, layer: nn.Module, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.layer = layer
        self._forward = forward

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # any layer's
        return self._forward(*args, **kwargs)


class _Fetch(torch.autograd.Function):
    """Copies of a layer's trainable weights, whose gradients are copied to the weights' device.

    All in one function, so that the processor waits for the GPU once per layer, not per weight.
    """

    @staticmethod
    def forward(
        ctx: BackwardCFunction, transfer: WeightTransfer, *weights: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.transfer = transfer  # type: ignore[attr-defined]  # as torch's documentation does it
        # A weight that was not used has no gradient, and gets no zeros.
        ctx.set_materialize_grads(False)
        return tuple(map(transfer.to_device, weights))

    @staticmethod
    def backward(
        ctx: BackwardCFunction, *gradients: Tensor | None
    ) -> tuple[None, *tuple[Tensor | None, ...]]:
        transfer: WeightTransfer = ctx.transfer  # type: ignore[attr-defined]  # set above
        copies = iter(transfer.all_to_host([each for each in gradients if each is not None]))
        return None, *(None if each is None else next(copies) for each in gradients)
