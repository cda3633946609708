"""A weight and its statistics as they were before a move, to be put back if it was a wrong one."""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


@dataclass(frozen=True)
class Kept:
    """What a weight and its statistics were.

    states: the optimizer's, by weight. beside: copies of what lies on the weight's device, by name,
    each taken apart into plain tensors. on_host: what is counted in main memory: numbers, and
    copies of tensors. is_new: whether the weight had no statistics yet.
    """

    weight: nn.Parameter
    states: MutableMapping[Tensor, dict[str, Any]]
    value: Tensor
    beside: Mapping[str, tuple[Tensor, ...]]
    on_host: Mapping[str, Any]
    is_new: bool

    @staticmethod
    def of(weight: nn.Parameter, optimizer: torch.optim.Optimizer) -> "Kept":
        """Copies of a weight and of what an optimizer knows of it."""
        states = optimizer.state
        is_new = weight not in states
        state = {} if is_new else states[weight]
        beside: dict[str, tuple[Tensor, ...]] = {}
        on_host: dict[str, Any] = {}
        for name, value in state.items():
            if isinstance(value, Tensor) and value.device == weight.device:
                beside[name] = tuple(part.clone() for part in _plain(value))
            else:
                on_host[name] = value.clone() if isinstance(value, Tensor) else value
        return Kept(weight, states, weight.detach().clone(), beside, on_host, is_new)

    def put_back_where(self, is_wrong: Tensor) -> None:
        """Puts back what lies on the weight's device if a scalar there is true, which is not read.

        The rest waits for `put_back_rest`.
        """
        self.weight.copy_(torch.where(is_wrong, self.value, self.weight))
        for name, parts in self.beside.items():
            for before, now in zip(parts, _plain(self.states[self.weight][name]), strict=True):
                now.copy_(torch.where(is_wrong, before, now))

    def put_back_rest(self) -> None:
        """Puts back what is counted in main memory, and takes away what there was nothing of."""
        if self.is_new:
            self.states.pop(self.weight, None)
            return
        state = self.states[self.weight]
        for name in state.keys() - self.beside.keys() - self.on_host.keys():
            del state[name]
        state.update(self.on_host)

    def without_copies(self) -> "Kept":
        """What `put_back_rest` needs, which takes no memory on the device."""
        names = dict.fromkeys(self.beside, ())
        return replace(self, value=self.value.new_empty(0), beside=names)


def _plain(value: Tensor) -> Iterator[Tensor]:
    """The tensors that a statistic of few bits is made of; any other is one itself."""
    if not is_traceable_wrapper_subclass(value):
        yield value
        return
    names, _ = value.__tensor_flatten__()
    for name in names:
        yield from _plain(vars(value)[name])
