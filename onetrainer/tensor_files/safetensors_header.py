"""Reading the header of a safetensors file with the standard library alone.

Layout: 8 bytes of length, a JSON table, the tensors' bytes. Source: the safetensors format.
"""

import json
import math
import struct
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError
from onetrainer.files.inside import open_ordinary
from onetrainer.tensor_files.entries import BYTES, TensorEntry, TensorTable, shape_problem
from onetrainer.tensor_files.refusals import (
    DOWNLOAD_AGAIN,
    damaged_error,
    not_tensors_error,
    truncated_error,
)

HEADER_LIMIT = 100_000_000  # as in the safetensors library
_LENGTH = 8
_LONGEST_NAME = 100


def read_safetensors(path: Path) -> TensorTable:
    """Read the tensor table of a safetensors file. Raises UserError if it is incomplete."""
    size = path.stat().st_size
    with open_ordinary(path) as file:
        start = file.read(_LENGTH)
        length = struct.unpack("<Q", start)[0] if len(start) == _LENGTH else HEADER_LIMIT + 1
        if length > HEADER_LIMIT:
            raise not_tensors_error(path, start)
        text = file.read(length)
    if len(text) < length:
        raise truncated_error(path, f"it ends inside its header, at {size} bytes")
    first = _LENGTH + length
    try:
        header: dict[str, Any] = json.loads(text)
        stated = header.pop("__metadata__", None) or {}
        metadata = {str(key): str(value) for key, value in stated.items()}
        for name, value in header.items():
            if problem := shape_problem(tuple(map(int, value["shape"]))):
                raise damaged_error(path, f"{name[:_LONGEST_NAME]} has {problem}")
        entries = {name: _entry(value, first) for name, value in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise not_tensors_error(path, start) from error
    _refuse_overlaps(path, entries)
    expected = max((entry.offset + entry.size for entry in entries.values()), default=first)
    if size < expected:
        raise truncated_error(path, f"it has {size} of {expected} bytes")
    if size > expected:
        raise UserError(
            f"{path.name}: the file has {size - expected} bytes more than its header says",
            remedy=DOWNLOAD_AGAIN,
        )
    return TensorTable(path, entries, metadata, "safetensors")


def _refuse_overlaps(path: Path, entries: Mapping[str, TensorEntry]) -> None:
    """Raise UserError if tensors share bytes: a small file would become any number of large ones.

    Source: the format's description, which allows neither this nor holes.
    """
    by_place = sorted(entries.items(), key=lambda item: (item[1].offset, item[1].size))
    for (name, entry), (other, following) in pairwise(by_place):
        if entry.offset + entry.size > following.offset:
            names = f"{name[:_LONGEST_NAME]} and {other[:_LONGEST_NAME]}"
            raise damaged_error(path, f"{names} overlap")


def _entry(value: Mapping[str, Any], first: int) -> TensorEntry:
    """Return a tensor's entry. Raises ValueError unless its size matches shape and type."""
    dtype, shape = str(value["dtype"]), tuple(int(side) for side in value["shape"])
    begin, end = (int(place) for place in value["data_offsets"])
    if begin < 0 or end < begin or min(shape, default=0) < 0:
        raise ValueError(f"bytes {begin} to {end} for shape {shape}")
    if dtype in BYTES and end - begin != BYTES[dtype] * math.prod(shape):
        raise ValueError(f"{end - begin} bytes for shape {shape} in {dtype}")
    return TensorEntry(dtype, shape, first + begin, end - begin)
