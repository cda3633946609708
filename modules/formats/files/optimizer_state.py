"""Optimizer state as tensors and JSON, so that checkpoints need no pickle."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

State = dict[int, dict[str, Any]]

# Libraries whose tensor classes a checkpoint may name: those of 4-bit and 8-bit optimizers.
_LIBRARIES = ("torchao",)
_DTYPES = {
    str(dtype): dtype
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.uint8)
}


class Packer:
    """Separates values into JSON and tensors.

    Attributes:
        tensors: Tensors packed so far, by key; a shared one is stored once, as safetensors
            requires.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._known: dict[tuple[int, torch.Size, torch.dtype], str] = {}

    def pack(self, value: object, key: str) -> object:
        """Return a value as JSON that refers to tensors; raise TypeError for unsupported values."""
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
    """Return a value restored from JSON and tensors.

    Raises:
        ValueError: For JSON that `Packer` has not written; also KeyError and TypeError.
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
    """Return values by name; raises what `unpack` does."""
    entries = unpack(packed, tensors)
    if not isinstance(entries, dict):
        raise ValueError(f"{str(packed)[:80]} is not a table of values")
    return entries


def unpack_plain(tensors: Mapping[str, Tensor], values: Mapping[str, Mapping[str, Any]]) -> State:
    """Return the state by parameter number, from checkpoints of the format without groups."""
    state: State = {int(number): dict(entries) for number, entries in values.items()}
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    return state


def _tensor_class(name: str) -> type[Tensor]:
    """Return a tensor class, of known libraries only: a file must not run code."""
    module, _, attribute = name.partition(":")
    if module.partition(".")[0] not in _LIBRARIES:
        raise ValueError(f"{name} is not a known tensor class")
    found = vars(importlib.import_module(module)).get(attribute)
    if not (isinstance(found, type) and issubclass(found, Tensor)):
        raise ValueError(f"{name} is not a tensor class")
    return found
