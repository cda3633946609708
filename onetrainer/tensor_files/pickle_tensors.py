"""The tensors in a pickle's values, read from torch's rebuild calls."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from onetrainer.tensor_files.entries import BYTES, MAX_DIMENSIONS, TensorEntry, shape_problem
from onetrainer.tensor_files.pickle_names import DTYPES, STORAGES
from onetrainer.tensor_files.unpickler import Call, Global, Persistent, PickleError

MAX_ENTRIES = 100_000
MAX_DEPTH = 32
MAX_NAME = 1000  # characters
# A tensor that repeats its few elements (stride 0) may be larger than its file, within this.
MAX_REPEATED_BYTES = 1 << 26

# Other metadata may be private, such as paths and names of users and machines, and must not be
# copied to converted files.
_KEY_PREFIXES = ("modelspec.", "ss_", "sshs_")
_EMBEDDING_KEYS = ("name", "step")
_EMBEDDING = "string_to_param"


class Region(NamedTuple):
    """The location of a storage's bytes in the file."""

    offset: int
    size: int


Locate = Callable[[object], Region]
"""Returns a storage's region by its key; raises PickleError if there is none."""


def find_tensors(value: object, locate: Locate) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    """Return all tensors of a checkpoint by dotted name, and its metadata of known keys.

    The level `state_dict` that some have is left out. Raises PickleError for invalid or unsupported
    tensors.
    """
    metadata: dict[str, str] = {}
    for _ in range(MAX_DEPTH):
        items = _items(value)
        metadata |= _texts(items)
        if not _items(items.get("state_dict")):
            break
        value = items["state_dict"]
    return {name: _entry(call, locate) for name, call in _tensors(value)}, metadata


def _tensors(root: object) -> Iterator[tuple[str, Call]]:
    """Yield every tensor below a dictionary with its dotted name."""
    waiting: list[tuple[str, object, int]] = [("", root, 0)]
    seen = 0
    while waiting:
        name, value, depth = waiting.pop()
        seen += 1
        # Bounded, since one dictionary may occur in many places, exponentially often.
        if seen > MAX_ENTRIES or depth > MAX_DEPTH or len(name) > MAX_NAME:
            raise PickleError("it holds too much, or too deeply nested")
        if isinstance(value, Call) and _is_tensor(value):
            yield name, value
            continue
        for key, inner in reversed(_items(value).items()):
            if isinstance(key, str | int):
                waiting.append((f"{name}.{key}" if name else str(key), inner, depth + 1))


def _items(value: object) -> dict[object, object]:
    """Return the items of a dictionary or its equivalent; none of other values."""
    if isinstance(value, Call) and isinstance(value.state, dict) and not _is_tensor(value):
        # A ParameterDict of torch, which the first textual inversion files have.
        value = value.state.get("_parameters")
    if isinstance(value, Call):
        return value.items if value.function == Global("collections", "OrderedDict") else {}
    return value if isinstance(value, dict) else {}


def _texts(items: Mapping[object, object]) -> dict[str, str]:
    """Return the plain values of a dictionary's known keys."""
    keys = _EMBEDDING_KEYS if _EMBEDDING in items else ()
    return {
        key: str(value)
        for key, value in items.items()
        if isinstance(key, str)
        and (key in keys or key.startswith(_KEY_PREFIXES))
        # Longer numbers take long to format.
        and (
            isinstance(value, str | float) or (isinstance(value, int) and value.bit_length() <= 64)
        )
    }


def _is_tensor(call: Call) -> bool:
    match call.function:
        case Global("torch._utils", name):
            return name.startswith("_rebuild_")
        case function:
            return function == Global("torch._tensor", "_rebuild_from_type_v2")


def _entry(call: Call, locate: Locate) -> TensorEntry:
    """Return the location of a tensor from the call that would rebuild it."""
    for _ in range(MAX_DEPTH):
        match call.function, call.arguments:
            case Global(name="_rebuild_tensor" | "_rebuild_tensor_v2"), (
                Persistent() as storage, offset, shape, strides, *_
            ):  # fmt: skip
                return _plain(storage, (offset, shape, strides), "", locate)
            case Global(name="_rebuild_tensor_v3"), (
                Persistent() as storage, offset, shape, strides, _, _, Global(name=dtype), *_
            ):  # fmt: skip
                return _plain(storage, (offset, shape, strides), DTYPES.get(dtype, "?"), locate)
            case Global(name="_rebuild_parameter" | "_rebuild_parameter_with_state"), (
                Call() as inner, *_
            ):  # fmt: skip
                call = inner
            case Global(name="_rebuild_from_type_v2"), (Global() as function, _, arguments, *_):
                call = Call(function, arguments)
            case _:
                break
    maker = call.function if isinstance(call.function, Global) else "something unnamed"
    raise PickleError(f"a tensor made by {maker} is not a plain one")


def _plain(
    storage: Persistent, place: tuple[object, object, object], dtype: str, locate: Locate
) -> TensorEntry:
    """Return the entry of a tensor. dtype: "" for the storage's type, "?" if unknown."""
    match storage.key:
        case ("storage", Global() as kind, key, _, _, *view):
            typed = dtype or STORAGES.get(kind.name, "")
        case _:
            raise PickleError("a tensor's storage is not described as torch does")
    if typed not in BYTES:
        raise PickleError(f"tensors of a type like {kind} are not known")
    width = BYTES[typed]
    region = _viewed(locate(key), view, width)
    (offset,), shape, strides = _numbers(place[:1]), _numbers(place[1]), _numbers(place[2])
    if problem := shape_problem(shape):
        raise PickleError(f"a tensor has {problem}")
    if len(shape) != len(strides):
        raise PickleError("a tensor has more sides than strides")
    count = math.prod(shape)
    spanned = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    size = width * spanned if count else 0
    if offset * width + size > region.size:
        raise PickleError("a tensor is larger than its storage")
    if count * width > max(region.size, MAX_REPEATED_BYTES):
        raise PickleError("a tensor is expanded to an implausible size")
    is_contiguous = count == 0 or _strides_fit(shape, strides)
    start = region.offset + offset * width
    return TensorEntry(typed, shape, start, size, None if is_contiguous else strides)


def _strides_fit(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Return whether the elements are contiguous in the order of the shape."""
    step = 1
    for side, stride in zip(reversed(shape), reversed(strides), strict=True):
        if side != 1 and stride != step:
            return False
        step *= side
    return True


def _viewed(region: Region, view: list[object], width: int) -> Region:
    """Return the part of a storage that very old files refer to by first element and length."""
    match view:
        case [(_, int() as first, int() as length)]:
            if first < 0 or length < 0 or (first + length) * width > region.size:
                raise PickleError("a part of a storage lies outside of it")
            return Region(region.offset + first * width, length * width)
        case _:
            return region


def _numbers(value: object) -> tuple[int, ...]:
    """Return the integers of a shape; raises PickleError for other values."""
    match value:
        case Call(function=Global("torch", "Size"), arguments=(inner,)):
            value = inner
    if isinstance(value, tuple | list) and len(value) > MAX_DIMENSIONS:
        raise PickleError(f"a tensor has {len(value)} dimensions, of at most {MAX_DIMENSIONS}")
    if isinstance(value, tuple | list):
        numbers = tuple(n for n in value if isinstance(n, int) and 0 <= n < 1 << 62)
        if len(numbers) == len(value):
            return numbers
    raise PickleError("a tensor's shape is no list of numbers")
