"""Cache of operators' results on the meta device: most of a network's layers are alike.

torch computes many operators' shapes in Python there, which would take most of the time. Forecasts
of one process share the cache: most of their layers are alike, too.
"""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

_META = torch.device("meta")
_MOST_FORMS = 100_000  # a forecast adds a few thousand, each of about a kilobyte
# They change a tensor's storage rather than only its contents.
_STORAGE_OPERATORS = frozenset(
    {"resize_", "resize_as_", "set_", "requires_grad_", "rename_", "detach_"}
)

Behavior = Literal["pure", "in place", "other"]
TensorForm = tuple[torch.Size, tuple[int, ...], torch.dtype]
"""A tensor's shape, strides and dtype."""


class _NotComparable(Exception):
    """An operand or result has no form that can be compared."""


class ShapeCache:
    """Runs operators, and caches the forms of results by those of operands."""

    def __init__(self) -> None:
        self._behaviors: dict[Any, Behavior] = {}
        self._forms: dict[Any, tuple[bool, list[TensorForm | None]]] = {}

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
        known = self._forms.get(key)
        if known is not None:
            is_single, forms = known
            result = [
                form and torch.empty_strided(form[0], form[1], dtype=form[2], device=_META)
                for form in forms
            ]
            return result[0] if is_single else tuple(result)
        result = func(*args, **named)
        is_single = isinstance(result, Tensor)
        made = [result] if is_single else result
        if isinstance(made, tuple | list) and _are_new(made, args):
            if len(self._forms) >= _MOST_FORMS:
                self._forms.clear()
            self._forms[key] = (
                is_single,
                [_form(each) if _is_plain(each) else None for each in made],
            )
        return result


SHAPE_CACHE = ShapeCache()


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
        return tuple([_form(each) for each in value])
    if value is None or kind in (int, float, bool, str):
        return kind, value
    if kind in (torch.dtype, torch.device, torch.layout, torch.memory_format):
        return value
    raise _NotComparable


def _are_new(results: Any, args: tuple[Any, ...]) -> bool:  # noqa: ANN401 - any result
    """Return whether results are plain tensors, or None, with storages of their own."""
    operands = {each.untyped_storage()._cdata for each in args if isinstance(each, Tensor)}
    return all(
        each is None
        or (
            _is_plain(each)
            and each.storage_offset() == 0
            and each.untyped_storage()._cdata not in operands
        )
        for each in results
    )
