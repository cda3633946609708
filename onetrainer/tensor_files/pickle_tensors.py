"""The tensors among a pickle's values: torch's rebuilding calls, taken as descriptions."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from onetrainer.tensor_files.entries import BYTES, TensorEntry
from onetrainer.tensor_files.pickle_names import DTYPES, STORAGES
from onetrainer.tensor_files.pickle_values import Call, Global, Persistent, PickleError

MAX_ENTRIES = 100_000
MAX_DEPTH = 32
# A tensor that repeats its few elements (stride 0) may be larger than its file, within this.
MAX_REPEATED_BYTES = 1 << 26

_UTILS = "torch._utils"
_ORDERED = Global("collections", "OrderedDict")
# What programs write beside the tensors besides these may be of nobody's business: paths, names of
# users and machines. Nothing of it may come into a file that is made of the pickle.
_KNOWN = ("modelspec.", "ss_", "sshs_")
_KNOWN_OF_EMBEDDINGS = ("name", "step")
_EMBEDDING = "string_to_param"


@dataclass(frozen=True)
class Region:
    """Where a storage's bytes are in the file."""

    offset: int
    size: int


Locate = Callable[[object], Region]
"""Gives a storage's region by its key; raises PickleError if there is none."""


@dataclass(frozen=True)
class Contents:
    """A pickle's tensors by their dotted names, and what it says of itself in known words."""

    entries: Mapping[str, TensorEntry]
    metadata: Mapping[str, str]


def find_tensors(value: object, locate: Locate) -> Contents:
    """Everything that a checkpoint names, without the level `state_dict` that some have.

    Raises PickleError for tensors that make no sense or are not plain ones.
    """
    metadata: dict[str, str] = {}
    items = _items(value)
    while items is not None:
        metadata |= _texts(items)
        inner = _items(items.get("state_dict"))
        if inner is None:
            break
        value = items = inner
    entries = {name: _entry(call, locate) for name, call in _tensors(value)}
    return Contents(entries, metadata)


def _tensors(root: object) -> Iterator[tuple[str, Call]]:
    """Every tensor below a dictionary, by its dotted name."""
    waiting: list[tuple[str, object, int]] = [("", root, 0)]
    seen = 0
    while waiting:
        name, value, depth = waiting.pop()
        seen += 1
        # One dictionary may stand in many places: bounded, as the whole grows with each level.
        if seen > MAX_ENTRIES or depth > MAX_DEPTH:
            raise PickleError("it holds too much, or too deeply nested")
        if isinstance(value, Call) and _is_tensor(value):
            yield name, value
            continue
        for key, inner in reversed(list((_items(value) or {}).items())):
            if isinstance(key, str | int):
                waiting.append((f"{name}.{key}" if name else str(key), inner, depth + 1))


def _items(value: object) -> Mapping[object, object] | None:
    """What a dictionary holds, or something that stands for one; None for all else."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, Call) or _is_tensor(value):
        return None
    if value.function == _ORDERED:
        return value.items
    # A ParameterDict of torch, which the first textual inversion files have.
    parameters = value.state.get("_parameters") if isinstance(value.state, dict) else None
    return _items(parameters)


def _texts(items: Mapping[object, object]) -> dict[str, str]:
    """The plain values among a dictionary's own, of those keys whose meaning is known."""
    words = _KNOWN_OF_EMBEDDINGS if _EMBEDDING in items else ()
    return {
        key: str(value)
        for key, value in items.items()
        if isinstance(key, str)
        and (key in words or key.startswith(_KNOWN))
        and (isinstance(value, str | float | bool) or _is_small(value))
    }


def _is_small(value: object) -> bool:
    """Whether it is a number of at most 64 bits; longer ones take long to write down."""
    return isinstance(value, int) and value.bit_length() <= 64


def _is_tensor(call: Call) -> bool:
    function = call.function
    if not isinstance(function, Global):
        return False
    return (function.module == _UTILS and function.name.startswith("_rebuild_")) or (
        str(function) == "torch._tensor._rebuild_from_type_v2"
    )


def _entry(call: Call, locate: Locate) -> TensorEntry:
    """Where a tensor lies, from the call that would make it."""
    for _ in range(MAX_DEPTH):
        if not isinstance(call.arguments, tuple) or not isinstance(call.function, Global):
            break
        match call.function.name, call.arguments:
            case "_rebuild_tensor", (Persistent() as storage, offset, shape, strides):
                return _plain(storage, (offset, shape, strides), "", locate)
            case "_rebuild_tensor_v2", (Persistent() as storage, offset, shape, strides, *_):
                return _plain(storage, (offset, shape, strides), "", locate)
            case "_rebuild_tensor_v3", (
                Persistent() as storage, offset, shape, strides, _, _, Global(name=dtype), *_
            ):  # fmt: skip
                return _plain(storage, (offset, shape, strides), DTYPES.get(dtype, "?"), locate)
            case "_rebuild_parameter" | "_rebuild_parameter_with_state", (Call() as inner, *_):
                call = inner
            case "_rebuild_from_type_v2", (Global() as function, _, arguments, *_):
                call = Call(function, arguments)
            case _:
                break
    maker = call.function if isinstance(call.function, Global) else "something unnamed"
    raise PickleError(f"a tensor made by {maker} is not a plain one")


def _plain(
    storage: Persistent, place: tuple[object, object, object], dtype: str, locate: Locate
) -> TensorEntry:
    """dtype: "" where the storage's own type is the tensor's, "?" for an unknown one."""
    match storage.key:
        case ("storage", Global() as kind, key, _, _, *view):
            typed = dtype or STORAGES.get(kind.name, "")
        case _:
            raise PickleError("a tensor's storage is not described as torch does")
    if typed not in BYTES:
        raise PickleError(f"tensors of a type like {kind} are not known")
    width = BYTES[typed]
    region = _viewed(locate(key), view, width)
    offset, shape, strides = _numbers(place[:1])[0], _numbers(place[1]), _numbers(place[2])
    if len(shape) != len(strides):
        raise PickleError("a tensor has more sides than strides")
    count = math.prod(shape)
    spanned = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    size = width * spanned if count else 0
    if offset * width + size > region.size:
        raise PickleError("a tensor is larger than its storage")
    if count * width > max(region.size, MAX_REPEATED_BYTES):
        raise PickleError("a tensor repeats its elements beyond any use")
    is_contiguous = count == 0 or strides_fit(shape, strides)
    start = region.offset + offset * width
    return TensorEntry(typed, shape, start, size, None if is_contiguous else strides)


def strides_fit(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the elements lie one after another in the order of the shape."""
    step = 1
    for side, stride in zip(reversed(shape), reversed(strides), strict=True):
        if side != 1 and stride != step:
            return False
        step *= side
    return True


def _viewed(region: Region, view: list[object], width: int) -> Region:
    """A part of a storage, as the oldest files refer to: its key, first element and length."""
    match view:
        case [(_, int() as first, int() as length)]:
            if first < 0 or length < 0 or (first + length) * width > region.size:
                raise PickleError("a part of a storage lies outside of it")
            return Region(region.offset + first * width, length * width)
        case _:
            return region


def _numbers(value: object) -> tuple[int, ...]:
    """The whole numbers of a shape; raises PickleError if there is anything else among them."""
    if isinstance(value, Call) and value.function == Global("torch", "Size"):
        match value.arguments:
            case (inner,):
                value = inner
    if not isinstance(value, tuple | list):
        raise PickleError("a tensor's shape is no list of numbers")
    numbers = tuple(n for n in value if isinstance(n, int) and 0 <= n < 1 << 62)
    if len(numbers) != len(value):
        raise PickleError("a tensor's shape is no list of numbers")
    return numbers
