"""An optimizer's state as tensors and JSON, so that no checkpoint needs pickle."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor


def pack(state: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimizer's `state_dict` as named tensors and what else there is, for JSON.

    Raises TypeError for a value that JSON does not hold.
    """
    tensors: dict[str, Tensor] = {}
    values: dict[str, dict[str, Any]] = {}
    for number, entries in state["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{number}.{name}"] = value.detach().contiguous()
            else:
                values.setdefault(str(number), {})[name] = value
    return tensors, {"state": values, "param_groups": state["param_groups"]}


def unpack(tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> dict[str, Any]:
    """The `state_dict` again. JSON has no tuples: lists stand in their place in param_groups."""
    state: dict[int, dict[str, Any]] = {
        int(number): dict(entries) for number, entries in document["state"].items()
    }
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    groups = [
        {key: tuple(value) if key == "betas" else value for key, value in group.items()}
        for group in document["param_groups"]
    ]
    return {"state": state, "param_groups": groups}
