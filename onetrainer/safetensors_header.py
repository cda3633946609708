"""The header of a safetensors file, read with the standard library alone.

Source of the layout: the safetensors format, 8 bytes of length, a JSON table, the tensors' bytes.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError

PICKLE_SUFFIXES = (".ckpt", ".pt", ".pth", ".bin")
HEADER_LIMIT = 100_000_000  # as in the safetensors library
BYTES = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2,
    "U16": 2, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
}  # fmt: skip
AGAIN = "The file is damaged or was not downloaded completely; download it again"


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a safetensors file."""

    dtype: str
    shape: tuple[int, ...]


def read_header(path: Path) -> dict[str, TensorEntry]:
    """The tensors of a safetensors file; raises UserError if the file is not a complete one."""
    if path.suffix.lower() in PICKLE_SUFFIXES:
        raise pickle_error(path)
    size = path.stat().st_size
    if size == 0:
        raise UserError(f"{path.name}: the file is empty (0 bytes)", remedy=AGAIN)
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else HEADER_LIMIT + 1
        if length > HEADER_LIMIT:
            raise _foreign_error(path, start)
        text = file.read(length)
    if len(text) < length:
        raise _truncated_error(path, f"it ends inside its header, at {size} bytes")
    try:
        header: dict[str, Any] = json.loads(text)
        header.pop("__metadata__", None)
        entries = {name: _entry(value) for name, value in header.items()}
        end = max((int(value["data_offsets"][1]) for value in header.values()), default=0)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _foreign_error(path, start) from error
    expected = 8 + length + end
    if size < expected:
        raise _truncated_error(path, f"it has {size} of {expected} bytes")
    if size > expected:
        raise UserError(
            f"{path.name}: the file has {size - expected} bytes more than its header says",
            remedy=AGAIN,
        )
    return entries


def _entry(value: Mapping[str, Any]) -> TensorEntry:
    """Raises ValueError unless the tensor's size is what its shape and type make it."""
    dtype, shape = str(value["dtype"]), tuple(int(side) for side in value["shape"])
    begin, end = value["data_offsets"]
    size = BYTES.get(dtype, 0)
    for side in shape:
        size *= side
    if dtype in BYTES and end - begin != size:
        raise ValueError(f"{end - begin} bytes for shape {shape} in {dtype}")
    return TensorEntry(dtype, shape)


def pickle_error(path: Path) -> UserError:
    """Why a pickle is refused."""
    return UserError(
        f"{path.name}: this is a pickle, and opening one can start programs hidden in it",
        "A .safetensors file was expected",
        "Choose the .safetensors version of this model, or convert it in a program you trust",
    )


def _foreign_error(path: Path, start: bytes) -> UserError:
    """Why a file that is no safetensors file is none, from its first bytes."""
    if start.startswith((b"PK\x03\x04", b"\x80\x02", b"\x80\x04")):  # zip of torch.save, or bare
        return pickle_error(path)
    if start.lstrip().startswith((b"<", b"version")):
        what = "this is a web page or a link, not the model: the download went wrong"
        return UserError(f"{path.name}: {what}", remedy="Download the file itself again")
    return UserError(
        f"{path.name}: this is not a safetensors file",
        "A complete .safetensors file was expected",
        "Choose another file, or download this one again if it should be one",
    )


def _truncated_error(path: Path, how: str) -> UserError:
    return UserError(f"{path.name}: the file is cut short: {how}", remedy=AGAIN)
