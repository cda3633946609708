"""An optimizer's state as tensors and JSON, so that no checkpoint needs pickle."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

State = dict[int, dict[str, Any]]


def pack(state: Mapping[int, Mapping[str, Any]]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What an optimizer keeps for each parameter: named tensors, and what else there is."""
    tensors: dict[str, Tensor] = {}
    values: dict[str, dict[str, Any]] = {}
    for number, entries in state.items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{number}.{name}"] = value.detach().contiguous()
            else:
                values.setdefault(str(number), {})[name] = value
    return tensors, values


def unpack(tensors: Mapping[str, Tensor], values: Mapping[str, Mapping[str, Any]]) -> State:
    """The state again, by the parameters' numbers."""
    state: State = {int(number): dict(entries) for number, entries in values.items()}
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    return state
