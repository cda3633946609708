"""What operators give on the meta device, remembered: most of a network's layers are alike.

torch computes shapes there in Python for many operators, which takes longer than everything else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

_META = torch.device("meta")
# They change what a tensor's memory is, and not only what is in it.
_OF_MEMORY = frozenset({"resize_", "resize_as_", "set_", "requires_grad_", "rename_", "detach_"})

Manner = Literal["pure", "in place", "other"]
Form = tuple[torch.Size, tuple[int, ...], torch.dtype]
"""A tensor's shape, strides and dtype."""


class _CannotRemember(Exception):
    """Something among the operands or results is not what can be compared."""


@dataclass(frozen=True)
class _Results:
    """The results of an operator. is_single: whether it gives a tensor rather than several."""

    forms: tuple[Form | None, ...]
    is_single: bool


class Shapes:
    """Carries operators out, and remembers the forms of results by those of operands."""

    def __init__(self) -> None:
        self._manners: dict[Any, Manner] = {}
        self._known: dict[Any, _Results] = {}

    def made(self, func: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """What an operator gives; new tensors where it is one that gives such."""
        manner = self._manners.get(func)
        if manner is None:
            manner = self._manners[func] = _manner(func)
        if manner == "in place" and _is_plain(args[0]):
            return args[0]
        if manner != "pure":
            return func(*args, **named)
        try:
            key = (func, _form(args), _form(tuple(named.items())))
        except _CannotRemember:
            return func(*args, **named)
        known = self._known.get(key)
        if known is not None:
            return _new(known)
        made = func(*args, **named)
        results = _results(made, args)
        if results is not None:
            self._known[key] = results
        return made


def _manner(func: Any) -> Manner:  # noqa: ANN401 - an operator of torch
    """Whether an operator gives new tensors, or its first one changed."""
    schema = func._schema
    written = [at for at, one in enumerate(schema.arguments) if _is_written(one)]
    shared = [one for one in schema.returns if one.alias_info is not None]
    if not written:
        return "other" if shared or not schema.returns else "pure"
    is_self = written == [0] and len(schema.returns) == 1 and len(shared) == 1
    name = schema.name.partition("::")[2]
    is_in_place = name.endswith("_") and name not in _OF_MEMORY
    return "in place" if is_self and is_in_place else "other"


def _is_written(argument: Any) -> bool:  # noqa: ANN401 - of an operator's schema
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def _is_plain(value: object) -> bool:
    return type(value) in (Tensor, nn.Parameter) and isinstance(value, Tensor) and value.is_meta


def _form(value: Any) -> Any:  # noqa: ANN401 - any operand
    """What of an operand decides the results' forms; raises where that cannot be told."""
    kind = type(value)
    if kind is Tensor or kind is nn.Parameter:
        if not value.is_meta:
            raise _CannotRemember
        return value.shape, value.stride(), value.dtype
    if kind is tuple or kind is list:
        return tuple([_form(one) for one in value])
    if value is None or kind in (int, float, bool, str):
        return kind, value
    if kind in (torch.dtype, torch.device, torch.layout, torch.memory_format):
        return value
    raise _CannotRemember


def _results(made: Any, args: tuple[Any, ...]) -> _Results | None:  # noqa: ANN401 - any result
    """The forms of results; None for those that are not all new tensors."""
    is_single = isinstance(made, Tensor)
    each = (made,) if is_single else made
    if not isinstance(each, tuple | list):
        return None
    forms: list[Form | None] = []
    for one in each:
        if one is not None and not (_is_plain(one) and one.storage_offset() == 0):
            return None
        forms.append(None if one is None else (one.shape, one.stride(), one.dtype))
    operands = {one.untyped_storage()._cdata for one in args if isinstance(one, Tensor)}
    if any(one is not None and one.untyped_storage()._cdata in operands for one in each):
        return None
    return _Results(tuple(forms), is_single)


def _new(results: _Results) -> Any:  # noqa: ANN401 - as the operator gives them
    made = [
        None if form is None else torch.empty_strided(form[0], form[1], dtype=form[2], device=_META)
        for form in results.forms
    ]
    return made[0] if results.is_single else tuple(made)
