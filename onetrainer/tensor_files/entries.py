"""The location and layout of each tensor in a file."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# Bytes per element by the type names of the safetensors format.
BYTES: Mapping[str, int] = {
    "C128": 16, "C64": 8, "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2,
    "BF16": 2, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
    "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1,
}  # fmt: skip


MAX_DIMENSIONS = 64
"""Of torch and numpy, which raise errors of their own for more."""
_MAX_ELEMENTS = 1 << 62  # of the sides that are not 0, as torch counts strides


def shape_problem(shape: tuple[int, ...]) -> str:
    """Return why no tensor can have a shape, though its bytes fit; "" if one can."""
    if len(shape) > MAX_DIMENSIONS:
        return f"{len(shape)} dimensions, of at most {MAX_DIMENSIONS}"
    if math.prod(side for side in shape if side) >= _MAX_ELEMENTS:
        return f"more elements than can be counted, in {len(shape)} dimensions"
    return ""


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a file.

    dtype: As named by safetensors ("F16"). offset: Of its first element, in bytes from the start of
    the file. size: Bytes up to the end of its last element. strides: In elements; None if
    contiguous.
    """

    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int
    strides: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class TensorTable:
    """The tensors of a file by name, and its metadata."""

    path: Path
    entries: Mapping[str, TensorEntry]
    metadata: Mapping[str, str]
    format: Literal["safetensors", "pickle"]
