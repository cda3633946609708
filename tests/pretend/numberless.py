"""Operations on tensors with shapes and no numbers: torch's meta device, for full-size models.

Everything that says it is on the GPU is in truth on the meta device, as is what is large in
host memory. What is small there keeps its numbers until it meets one without.
"""

import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload

from tests.pretend.ledger import replace
from tests.pretend.op_rules import OpRule

META = torch.device("meta")
LARGE = 2**20
"""Bytes from which on a tensor of the host is made without numbers."""
_COPIES = ("aten::copy_", "aten::_foreach_copy_")


class Numberless:
    """Carries operations out as far as shapes go; values that are asked for are those of zeros."""

    def __init__(self) -> None:
        # Of bools that are true: whether all zeros are finite is asked more often than anything.
        self._true: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def compute(
        self, func: OpOverload, rule: OpRule, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """The result of an operation."""
        if not any(tensor.is_meta for tensor in _tensors([*args, *kwargs.values()])):
            return func(*args, **kwargs)
        name = func._schema.name
        if name == "aten::_local_scalar_dense":
            return self._number(args[0])
        if name == "aten::equal":
            return True
        if name == "aten::nonzero":
            return torch.empty(0, args[0].dim(), dtype=torch.int64, device=META)
        if name in _COPIES:
            return args[0] if func._schema.returns else None
        given = {key: _without_numbers(value) for key, value in kwargs.items()}
        if given.get("generator") is not None:
            given["generator"] = None  # nothing is sampled
        result = self._computed(func, rule, [_without_numbers(value) for value in args], given)
        if name == "aten::all":
            self._note_true(result)
        # Into numbers nothing can be written that has none.
        return args[0] if rule.written == (0,) and func._schema.returns else result

    def _computed(
        self, func: OpOverload, rule: OpRule, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        try:
            return func(*args, **kwargs)
        except NotImplementedError:
            # Fused optimizers and those of bitsandbytes: they change what is there.
            if rule.makes and func._schema.returns:
                raise
            return None

    def _number(self, tensor: Tensor) -> float | int | bool:
        if tensor.dtype == torch.bool:
            return tensor.untyped_storage()._cdata in self._true
        return 0.0 if tensor.is_floating_point() else 0

    def _note_true(self, result: Tensor) -> None:
        storage = result.untyped_storage()
        address = storage._cdata
        self._true[address] = weakref.ref(storage, lambda _: self._true.pop(address, None))


def zeros_of(tensor: Tensor) -> Tensor:
    """The representation of a tensor without numbers."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype)


def make_parameters_numberless(patches: ExitStack) -> None:
    """Parameters that are made from now on have no numbers, so that they may move as one likes."""
    original = nn.Parameter.__new__

    def new(cls: type, data: Any = None, requires_grad: bool = True) -> Any:
        if type(data) is Tensor and data.device.type == "cpu" and data.is_floating_point():
            data = torch.empty_like(data, device=META)
        return original(cls, data, requires_grad)

    replace(patches, nn.Parameter, "__new__", staticmethod(new))


def _without_numbers(value: Any) -> Any:
    if isinstance(value, Tensor):
        # A number without dimensions goes with everything, as on a GPU.
        return value if value.is_meta or value.dim() == 0 else torch.empty_like(value, device=META)
    if isinstance(value, list | tuple):
        return [_without_numbers(one) for one in value]
    return value


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    found = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += [one for one in value if isinstance(one, Tensor)]
    return found
