"""An optimizer's values as tensors and JSON, so that no checkpoint needs pickle."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

State = dict[int, dict[str, Any]]

# Whose tensor classes a checkpoint may name: those of optimizers with 4 and 8 bits.
_LIBRARIES = ("torchao",)
_DTYPES = {
    str(dtype): dtype
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.uint8)
}


class Packer:
    """Takes values apart.

    tensors: what was met so far, by key; one that several values share is there once, as
    safetensors demands.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._known: dict[tuple[int, torch.Size, torch.dtype], str] = {}

    def pack(self, value: object, key: str) -> object:
        """A value as JSON that refers to tensors. Raises TypeError for what cannot be kept."""
        match value:
            case None | bool() | int() | float() | str():
                return value
            case Tensor():
                return self._pack_tensor(value, key)
            case torch.dtype():
                return {"dtype": str(value)}
            case tuple():
                return {"tuple": self._pack_all(value, key)}
            case list():
                return self._pack_all(value, key)
            case Mapping():
                return {"map": {name: self.pack(v, f"{key}.{name}") for name, v in value.items()}}
        raise TypeError(f"{key}: a checkpoint cannot hold a {type(value).__name__}")

    def _pack_all(self, values: Sequence[object], key: str) -> list[object]:
        return [self.pack(value, f"{key}.{place}") for place, value in enumerate(values)]

    def _pack_tensor(self, value: Tensor, key: str) -> dict[str, object]:
        kind = type(value)
        if kind not in (Tensor, nn.Parameter):
            names, context = value.__tensor_flatten__()  # type: ignore[attr-defined] # by torch's protocol for such classes
            parts = dict(vars(value))
            return {
                "class": f"{kind.__module__}:{kind.__qualname__}",
                "parts": {name: self.pack(parts[name], f"{key}.{name}") for name in names},
                "context": self.pack(context, f"{key}.context"),
            }
        tensor = value.detach().contiguous()
        place = (tensor.data_ptr(), tensor.shape, tensor.dtype)
        known = self._known.setdefault(place, key) if tensor.numel() else key
        if known == key:
            self.tensors[key] = tensor
        return {"tensor": known}


def unpack(packed: object, tensors: Mapping[str, Tensor]) -> object:
    """A value as it was, with the given tensors in it.

    Raises ValueError, KeyError or TypeError for what `Packer` has not written.
    """
    match packed:
        case None | bool() | int() | float() | str():
            return packed
        case list():
            return [unpack(value, tensors) for value in packed]
        case {"tuple": list(values)}:
            return tuple(unpack(value, tensors) for value in values)
        case {"tensor": str(key)}:
            return tensors[key]
        case {"dtype": str(name)}:
            return _DTYPES[name]
        case {"map": dict(entries)}:
            return {name: unpack(value, tensors) for name, value in entries.items()}
        case {"class": str(name), "parts": dict(parts), "context": context}:
            inner = {name: unpack(value, tensors) for name, value in parts.items()}
            return _tensor_class(name).__tensor_unflatten__(  # type: ignore[attr-defined] # as above
                inner, unpack(context, tensors), None, None
            )
    raise ValueError(f"{str(packed)[:80]} is not an optimizer's value")


def unpack_entries(packed: object, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Values by name; raises what `unpack` does."""
    entries = unpack(packed, tensors)
    if not isinstance(entries, dict):
        raise ValueError(f"{str(packed)[:80]} is not a table of values")
    return entries


def unpack_plain(tensors: Mapping[str, Tensor], values: Mapping[str, Mapping[str, Any]]) -> State:
    """The state by the parameters' numbers, of checkpoints from before groups had progress."""
    state: State = {int(number): dict(entries) for number, entries in values.items()}
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    return state


def _tensor_class(name: str) -> type[Tensor]:
    """The class of a tensor; of no library but those known, for a file is not to run code."""
    module, _, attribute = name.partition(":")
    if module.partition(".")[0] not in _LIBRARIES:
        raise ValueError(f"{name} is not a known kind of tensor")
    found = vars(importlib.import_module(module)).get(attribute)
    if not (isinstance(found, type) and issubclass(found, Tensor)):
        raise ValueError(f"{name} is not a kind of tensor")
    return found
