"""Snapshot of a weight and its optimizer state from before an update, to undo the update."""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


@dataclass(frozen=True)
class WeightSnapshot:
    """A weight and its optimizer state at one moment.

    states: the optimizer's state of all weights. on_device: copies of the state on the weight's
    device, by name, each taken apart into plain tensors. on_host: the state in host memory:
    numbers, and copies of tensors. is_new: whether the weight had no state yet.
    """

    weight: nn.Parameter
    states: MutableMapping[Tensor, dict[str, Any]]
    value: Tensor
    on_device: Mapping[str, tuple[Tensor, ...]]
    on_host: Mapping[str, Any]
    is_new: bool

    @staticmethod
    def take(weight: nn.Parameter, optimizer: torch.optim.Optimizer) -> "WeightSnapshot":
        """Copy a weight and its optimizer state."""
        states = optimizer.state
        is_new = weight not in states
        state = {} if is_new else states[weight]
        on_device: dict[str, tuple[Tensor, ...]] = {}
        on_host: dict[str, Any] = {}
        for name, value in state.items():
            if isinstance(value, Tensor) and value.device == weight.device:
                on_device[name] = tuple(tensor.clone() for tensor in _plain_tensors(value))
            else:
                on_host[name] = value.clone() if isinstance(value, Tensor) else value
        return WeightSnapshot(weight, states, weight.detach().clone(), on_device, on_host, is_new)

    def restore_where(self, condition: Tensor) -> None:
        """Restore what is on the weight's device if a scalar there is true, without reading it.

        `restore_host_state` restores the rest.
        """
        torch.where(condition, self.value, self.weight, out=self.weight)
        for name, tensors in self.on_device.items():
            current = _plain_tensors(self.states[self.weight][name])
            for before, now in zip(tensors, current, strict=True):
                torch.where(condition, before, now, out=now)

    def restore_host_state(self) -> None:
        """Restore the state in host memory, and delete state that did not exist before."""
        if self.is_new:
            self.states.pop(self.weight, None)
            return
        state = self.states[self.weight]
        for name in state.keys() - self.on_device.keys() - self.on_host.keys():
            del state[name]
        state.update(self.on_host)

    def without_copies(self) -> "WeightSnapshot":
        """Return what `restore_host_state` needs, without memory on the device."""
        names = dict.fromkeys(self.on_device, ())
        return replace(self, value=self.value.new_empty(0), on_device=names)


def _plain_tensors(value: Tensor) -> Iterator[Tensor]:
    """Iterate over the tensors that a quantized one consists of, or yield a plain one itself."""
    if not is_traceable_wrapper_subclass(value):
        yield value
        return
    names, _ = value.__tensor_flatten__()
    for name in names:
        yield from _plain_tensors(vars(value)[name])
