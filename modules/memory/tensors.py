"""The tensors in frozen dataclasses: changed, placed and compared, whatever else is in them."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import TypeVar, cast

import torch
from torch import Tensor

from modules.memory.to_device import to_device

Value = TypeVar("Value")


def map_tensors(value: Value, change: Callable[[Tensor], Tensor]) -> Value:
    """Return a dataclass with each of its tensors changed, and those of dataclasses in it.

    The value itself if `change` returns each tensor as it is.
    """
    if isinstance(value, Tensor):
        return cast(Value, change(value))
    changes = {}
    for name, each in _entries(value):
        changed = map_tensors(each, change)
        if changed is not each:
            changes[name] = changed
    if not changes:
        return value
    return replace(value, **changes)  # type: ignore[type-var] # a dataclass, as it has fields


def tensors_in(value: object) -> Iterator[Tensor]:
    """Yield the tensors of a dataclass, and those of dataclasses in it, in a fixed order."""
    if isinstance(value, Tensor):
        yield value
    else:
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
    """Iterate over the fields of a dataclass; over nothing of any other value."""
    kind: type = type(value)
    return ((name, getattr(value, name)) for name in _names(kind))


@lru_cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
