"""The tensors in frozen dataclasses: changed, placed and compared, whatever else is in them."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

import torch
from torch import Tensor

from modules.memory.to_device import to_device

Value = TypeVar("Value")


def map_tensors(value: Value, change: Callable[[Tensor], Tensor]) -> Value:
    """Return a dataclass with each of its tensors changed, and those of dataclasses in it."""
    if isinstance(value, Tensor):
        return cast(Value, change(value))
    if is_dataclass(value) and not isinstance(value, type):
        changed = {name: map_tensors(each, change) for name, each in _entries(value)}
        return cast(Value, replace(value, **changed))
    return value


def tensors_in(value: object) -> Iterator[Tensor]:
    """Yield the tensors of a dataclass, and those of dataclasses in it, in a fixed order."""
    if isinstance(value, Tensor):
        yield value
    elif is_dataclass(value):
        for _, each in _entries(value):
            yield from tensors_in(each)


def form_of(value: object) -> Hashable:
    """Return all of a dataclass but its tensors' numbers: equal for what is computed alike."""
    if isinstance(value, Tensor):
        return tuple(value.shape), value.dtype
    if is_dataclass(value):
        return type(value), tuple(form_of(each) for _, each in _entries(value))
    assert isinstance(value, Hashable)
    return value


def on_device(value: Value, device: torch.device) -> Value:
    """Return a dataclass with its tensors on a device, without waiting for its queued work."""
    return map_tensors(value, lambda tensor: to_device(tensor, device))


def pinned(value: Value) -> Value:
    """Return a dataclass whose tensors in host memory are pinned: a GPU copies them at once."""
    return map_tensors(value, lambda each: each.pin_memory() if each.device.type == "cpu" else each)


def _entries(value: object) -> Iterator[tuple[str, object]]:
    assert is_dataclass(value)
    return ((field.name, getattr(value, field.name)) for field in fields(value))
