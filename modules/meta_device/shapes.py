"""Cache of operators' results on the meta device: most of a network's layers are alike.

torch computes many operators' shapes in Python there, which would take most of the time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

_META = torch.device("meta")
# They change a tensor's storage rather than only its contents.
_STORAGE_OPERATORS = frozenset(
    {"resize_", "resize_as_", "set_", "requires_grad_", "rename_", "detach_"}
)

Behavior = Literal["pure", "in place", "other"]
TensorForm = tuple[torch.Size, tuple[int, ...], torch.dtype]
"""A tensor's shape, strides and dtype."""


class _NotComparable(Exception):
    """An operand or result has no form that can be compared."""


@dataclass(frozen=True)
class _Results:
    """The results of an operator; is_single: whether it returns a tensor rather than several."""

    forms: tuple[TensorForm | None, ...]
    is_single: bool


class ShapeCache:
    """Runs operators, and caches the forms of results by those of operands."""

    def __init__(self) -> None:
        self._behaviors: dict[Any, Behavior] = {}
        self._results_by_form: dict[Any, _Results] = {}

    def call(self, func: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Return what an operator returns; new tensors if it is one that returns such."""
        behavior = self._behaviors.get(func)
        if behavior is None:
            behavior = self._behaviors[func] = _behavior_of(func)
        if behavior == "in place" and _is_plain(args[0]):
            return args[0]
        if behavior != "pure":
            return func(*args, **named)
        try:
            key = (func, _form(args), _form(tuple(named.items())))
        except _NotComparable:
            return func(*args, **named)
        known = self._results_by_form.get(key)
        if known is not None:
            return _make_tensors(known)
        result = func(*args, **named)
        results = _results(result, args)
        if results is not None:
            self._results_by_form[key] = results
        return result


def _behavior_of(func: Any) -> Behavior:  # noqa: ANN401 - an operator of torch
    """Return whether an operator returns new tensors, or its first argument changed in place."""
    schema = func._schema
    aliases = [argument.alias_info for argument in schema.arguments]
    written = [number for number, alias in enumerate(aliases) if alias and alias.is_write]
    shared = [result for result in schema.returns if result.alias_info is not None]
    if not written:
        return "other" if shared or not schema.returns else "pure"
    is_self = written == [0] and len(schema.returns) == 1 and len(shared) == 1
    name = schema.name.partition("::")[2]
    is_in_place = name.endswith("_") and name not in _STORAGE_OPERATORS
    return "in place" if is_self and is_in_place else "other"


def _is_plain(value: object) -> bool:
    return type(value) in (Tensor, nn.Parameter) and isinstance(value, Tensor) and value.is_meta


def _form(value: Any) -> Any:  # noqa: ANN401 - any operand
    """Return what determines the results' forms; raise _NotComparable for unknown types."""
    kind = type(value)
    if kind is Tensor or kind is nn.Parameter:
        if not value.is_meta:
            raise _NotComparable
        return value.shape, value.stride(), value.dtype
    if kind is tuple or kind is list:
        return tuple([_form(one) for one in value])
    if value is None or kind in (int, float, bool, str):
        return kind, value
    if kind in (torch.dtype, torch.device, torch.layout, torch.memory_format):
        return value
    raise _NotComparable


def _results(result: Any, args: tuple[Any, ...]) -> _Results | None:  # noqa: ANN401 - any result
    """Return the forms of results; None unless all of them are new tensors."""
    is_single = isinstance(result, Tensor)
    each = (result,) if is_single else result
    if not isinstance(each, tuple | list):
        return None
    forms: list[TensorForm | None] = []
    for one in each:
        if one is not None and not (_is_plain(one) and one.storage_offset() == 0):
            return None
        forms.append(None if one is None else (one.shape, one.stride(), one.dtype))
    operands = {one.untyped_storage()._cdata for one in args if isinstance(one, Tensor)}
    if any(one is not None and one.untyped_storage()._cdata in operands for one in each):
        return None
    return _Results(tuple(forms), is_single)


def _make_tensors(results: _Results) -> Any:  # noqa: ANN401 - as the operator gives them
    result = [
        None if form is None else torch.empty_strided(form[0], form[1], dtype=form[2], device=_META)
        for form in results.forms
    ]
    return result[0] if results.is_single else tuple(result)
