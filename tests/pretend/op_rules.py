"""What is to be watched in each of torch's operations: found out once for each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

aten = torch.ops.aten

# They take tensors without dimensions from host memory, besides all that are pointwise.
_TAKE_SCALARS = {
    "aten::masked_fill",
    "aten::masked_fill_",
    "aten::index_fill",
    "aten::index_fill_",
    "aten::fill",
    "aten::fill_",
    "aten::full_like",
    "aten::addr",
}
# Here the host waits for what the GPU has computed: the result's size or value has to be known.
# Source: the list of torch.cuda.set_sync_debug_mode, and the places where ATen's CUDA code calls
# memcpy_and_sync or stream_synchronize.
_WAITS = {
    "aten::_local_scalar_dense": "item",
    "aten::nonzero": "nonzero",
    "aten::masked_select": "masked_select",
    "aten::equal": "equal",
    "aten::_unique": "unique",
    "aten::_unique2": "unique",
    "aten::unique_dim": "unique",
    "aten::unique_consecutive": "unique",
    "aten::unique_dim_consecutive": "unique",
    "aten::bincount": "bincount",
    "aten::_linalg_check_errors": "linalg",
}
_INDEXING = {
    "aten::index",
    "aten::_unsafe_index",
    "aten::index_put",
    "aten::index_put_",
    "aten::_index_put_impl_",
    "aten::_unsafe_index_put",
}
_RESIZING = {"aten::resize_", "aten::resize_as_", "aten::set_"}
# Tensors in these places stay in host memory on CUDA, too.
_HOST_ARGUMENTS = {
    "aten::tensor_split": {"tensor_indices_or_sections"},
    "aten::_pack_padded_sequence": {"lengths"},
}
_INDEX_DTYPES_OF_MASKS = (torch.bool, torch.uint8)


@dataclass(frozen=True)
class OpRule:
    """How one operation is checked and its results are noted.

    kind: "plain", "copy", "move" (may be asked to cross), "index" or "foreach". waits: what the
    host waits for. takes_scalars: whether tensors without dimensions may come from host memory.
    makes: whether results may be new memory. is_view:
    whether they are only views. resizes: whether the first argument's memory, or that
    of `out=`, may get another size. written: the places of the arguments that it writes into.
    """

    name: str
    kind: str
    waits: str | None
    takes_scalars: bool
    makes: bool
    is_view: bool
    resizes: bool
    written: tuple[int, ...]
    written_names: tuple[str, ...]
    host_names: frozenset[str]
    argument_names: tuple[str, ...]


def rule_of(op: OpOverload) -> OpRule:
    """The rule of an operation."""
    schema = op._schema
    arguments = schema.arguments
    written = [
        (place, argument)
        for place, argument in enumerate(arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    aliases = [value.alias_info is not None for value in schema.returns]
    return OpRule(
        name=str(op),
        kind=_kind(schema.name),
        waits=_wait(op),
        takes_scalars=torch.Tag.pointwise in op.tags or schema.name in _TAKE_SCALARS,
        makes=not all(aliases),
        is_view=all(aliases) and not written,
        resizes=schema.name in _RESIZING or any(one.is_out for _, one in written),
        written=tuple(place for place, argument in written if not argument.kwarg_only),
        written_names=tuple(one.name for _, one in written if one.kwarg_only),
        host_names=frozenset(_HOST_ARGUMENTS.get(schema.name, ())),
        argument_names=tuple(argument.name for argument in arguments),
    )


def has_mask(indices: Sequence[Tensor | None]) -> bool:
    """Whether one of the indices is a mask, of which the host has to know how much is set."""
    return any(index is not None and index.dtype in _INDEX_DTYPES_OF_MASKS for index in indices)


def becomes_masked_fill(
    rule: OpRule, args: Sequence[Any], is_host: Callable[[Tensor], bool]
) -> bool:
    """Whether CUDA writes a number under a mask without asking how much that is.

    Source: ATen's canDispatchToMaskedFill.
    """
    if "index_put" not in rule.name or (len(args) > 3 and args[3]):
        return False
    value = args[2]
    return bool(value.numel() == 1 and is_host(value))


def _kind(name: str) -> str:
    if name in ("aten::copy_", "aten::copy", "aten::_copy_from"):
        return "copy"
    if name == "aten::_to_copy":
        return "move"
    if name in _INDEXING:
        return "index"
    if name.startswith("aten::_foreach_"):
        return "foreach"
    return "plain"


def _wait(op: OpOverload) -> str | None:
    name = op._schema.name
    if name == "aten::repeat_interleave" and op._overloadname == "Tensor":
        return "repeat_interleave"
    if name in ("aten::masked_fill", "aten::masked_fill_") and op._overloadname == "Tensor":
        return "masked_fill"  # its CUDA code asks for the value
    return _WAITS.get(name)
