"""Where each tensor of a file lies, and in what form."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# Bytes an element of each type takes, in the words of the safetensors format.
BYTES: Mapping[str, int] = {
    "C128": 16, "C64": 8, "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2,
    "BF16": 2, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
    "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1,
}  # fmt: skip


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a file.

    dtype: in safetensors' words ("F16"). offset: of its first element, in bytes from the start of
    the file. size: the bytes from there to the end of its last element.
    strides: in elements; None where the elements lie one after another, in the order of the shape.
    """

    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int
    strides: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class TensorTable:
    """Every tensor of a file by its name, and what the file says about itself."""

    path: Path
    entries: Mapping[str, TensorEntry]
    metadata: Mapping[str, str]
    format: Literal["safetensors", "pickle"]
