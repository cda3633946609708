"""Cache shards: many encoded entries of one shape, stacked in a safetensors file.

A shard is a plain safetensors file that any program can open: each tensor has one row per entry,
and the metadata contain each entry's key and checksum. An entry that is not merged yet is a shard
of one row. The checksum covers the key, the shapes and the bytes, so that any change is noticed.
"""

import hashlib
import json
import math
import os
import re
import struct
import uuid
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from onetrainer.errors import KnownError
from onetrainer.files.atomic import temporary_path
from onetrainer.files.inside import open_ordinary
from onetrainer.files.own_json import parse_object
from onetrainer.tensor_files.entries import BYTES
from onetrainer.tensor_files.safetensors_header import HEADER_LIMIT

Kind = Literal["latents", "masks", "text"]
KINDS: tuple[Kind, ...] = ("latents", "masks", "text")

FORMAT = "onetrainer-cache-1"
"""Changed when the layout of shards changes; files of another format are left alone."""

KEY_BYTES = 32
SHARD_BYTES = 256 * 1024**2
"""Largest shard: large enough for few files, small enough to be rewritten in a second."""

SHARD_ENTRIES = 8192
"""Most rows of a shard: small entries such as masks would make a header of many MB."""

_LENGTH = 8
_ALIGNMENT = 8
_HEADER_ERRORS = (
    *(ValueError, TypeError, LookupError, AttributeError, struct.error),
    RecursionError,  # of deeply nested JSON
)
SHARD_NAME = re.compile(r"[0-9a-f]{32}\.safetensors")
PART_NAME = re.compile(r"[0-9a-f]{32}\.safetensors\.part")
"""A shard that an older version was writing."""


class DamagedEntry(KnownError):
    """An entry that cannot be used: truncated, or not as it was written."""


class InvalidShard(Exception):
    """A file that is not a shard of this format; the text says why."""


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """One tensor of a shard.

    shape: of one row. begin: offset of the first row in the file. row_bytes: bytes of a row.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    row_bytes: int


@dataclass(frozen=True, slots=True)
class Shard:
    """The header of a shard.

    tensors: in the order of their data. keys: concatenated. checksums: of each row. size: of the
    whole file, in bytes.
    """

    tensors: tuple[TensorLayout, ...]
    keys: bytes
    checksums: Sequence[int]
    size: int

    @property
    def count(self) -> int:
        """Number of entries."""
        return len(self.checksums)

    @property
    def row_bytes(self) -> int:
        """Bytes of one entry."""
        return sum(tensor.row_bytes for tensor in self.tensors)

    @property
    def signature(self) -> str:
        """Text that is equal for entries that may share a shard."""
        return signature_of((tensor.name, tensor.dtype, tensor.shape) for tensor in self.tensors)

    def key(self, row: int) -> bytes:
        """Return the key of a row."""
        return self.keys[row * KEY_BYTES : (row + 1) * KEY_BYTES]


def entry_key(*content: str | int | float) -> bytes:
    """Return a key that differs whenever something that decides an entry's content does."""
    return hashlib.sha256(json.dumps(content).encode()).digest()


def signature_of(tensors: Iterable[tuple[str, str, Sequence[int]]]) -> str:
    """Return names, types and shapes of an entry's tensors as text."""
    return json.dumps([[name, dtype, list(shape)] for name, dtype, shape in tensors])


def checksum(key: bytes, signature: str, rows: Iterable[bytes | memoryview]) -> int:
    """Return the CRC-32 of an entry: its key, its signature and its tensors' bytes in order."""
    value = zlib.crc32(signature.encode(), zlib.crc32(key))
    for row in rows:
        value = zlib.crc32(row, value)
    return value


def new_name() -> str:
    """Return a unique name for a shard."""
    return f"{uuid.uuid4().hex}.safetensors"


def read_shard(path: Path) -> Shard:
    """Read a shard's header and check that its data are complete. Raises InvalidShard, OSError."""
    with open_ordinary(path) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(_LENGTH)
        length = struct.unpack("<Q", start)[0] if len(start) == _LENGTH else HEADER_LIMIT + 1
        if length > min(HEADER_LIMIT, size - _LENGTH):
            raise InvalidShard("it is truncated")
        text = file.read(length)
    try:
        header: dict[str, Any] = parse_object(text)
        said = header.pop("__metadata__")
        if said["format"] != FORMAT:
            raise InvalidShard("it is of another format")
        keys, sums = (bytes.fromhex(said[name]) for name in ("keys", "checksums"))
        count = len(keys) // KEY_BYTES
        if len(keys) % KEY_BYTES or not count:
            raise ValueError("a key is truncated")
        checksums = array("I", struct.unpack(f"<{count}I", sums))
        tensors = _tensor_layouts(header, count, _LENGTH + length)
    except _HEADER_ERRORS as error:
        raise InvalidShard("its header cannot be read") from error
    shard = Shard(tensors, keys, checksums, size)
    if size != _LENGTH + length + shard.row_bytes * count:
        raise InvalidShard("it is truncated")
    return shard


def intact_rows(path: Path, shard: Shard, rows: Iterable[int]) -> list[int]:
    """Return those of some rows that have the right checksum. Raises OSError."""
    signature = shard.signature
    with open_ordinary(path) as file:
        return [
            row
            for row in rows
            if checksum(shard.key(row), signature, (_read(file, t, row) for t in shard.tensors))
            == shard.checksums[row]
        ]


def entry_bytes(
    key: bytes, tensors: Mapping[str, tuple[str, tuple[int, ...], memoryview]]
) -> bytes:
    """Return the file of a single entry. tensors: type, shape and bytes of each; at least one."""
    if len(key) != KEY_BYTES or not tensors:
        raise ValueError(f"a key of {len(key)} bytes for {len(tensors)} tensors")
    laid = sorted(tensors.items(), key=lambda item: (-BYTES[item[1][0]], item[0]))
    shapes = [(name, dtype, shape) for name, (dtype, shape, _) in laid]
    rows = [data for _, (_, _, data) in laid]
    return b"".join([_header(shapes, key, [checksum(key, signature_of(shapes), rows)]), *rows])


def write_file(path: Path, pieces: Iterable[bytes | memoryview], *, safely: bool = False) -> None:
    """Write a file that is complete or absent; safely: also on power failure. Raises OSError."""
    unfinished = temporary_path(path)
    try:
        with unfinished.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            if safely:
                file.flush()
                os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def merged(sources: Sequence[tuple[Path, Shard, Sequence[int]]]) -> Iterator[bytes]:
    """Yield the file of a shard that combines rows of others of one signature.

    Bytes and checksums are copied. sources: at least one, each with its rows. Raises OSError.
    """
    first = sources[0][1]
    keys = b"".join(shard.key(row) for _, shard, rows in sources for row in rows)
    sums = [shard.checksums[row] for _, shard, rows in sources for row in rows]
    yield _header(
        [(tensor.name, tensor.dtype, tensor.shape) for tensor in first.tensors], keys, sums
    )
    for place in range(len(first.tensors)):
        for path, shard, rows in sources:
            tensor = shard.tensors[place]
            with open_ordinary(path) as file:
                yield from (_read(file, tensor, row) for row in rows)


def _header(
    shapes: Sequence[tuple[str, str, tuple[int, ...]]], keys: bytes, checksums: Sequence[int]
) -> bytes:
    """Return a safetensors header of contiguous tensors."""
    content: dict[str, object] = {
        "__metadata__": {
            "format": FORMAT,
            "keys": keys.hex(),
            "checksums": struct.pack(f"<{len(checksums)}I", *checksums).hex(),
        }
    }
    begin = 0
    for name, dtype, shape in shapes:
        end = begin + len(checksums) * BYTES[dtype] * math.prod(shape)
        whole = [len(checksums), *shape]
        content[name] = {"dtype": dtype, "shape": whole, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(content, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)  # aligns the tensors
    return struct.pack("<Q", len(text)) + text


def _tensor_layouts(header: Mapping[str, Any], count: int, first: int) -> tuple[TensorLayout, ...]:
    """Return the tensors in the order of their data; ValueError unless they are contiguous."""
    tensors = []
    for name, value in header.items():
        rows, *shape = (int(side) for side in value["shape"])
        begin, end = (int(place) for place in value["data_offsets"])
        row_bytes = BYTES[value["dtype"]] * math.prod(shape)
        if rows != count or min(shape, default=0) < 0 or end - begin != rows * row_bytes:
            raise ValueError(f"bytes {begin} to {end} for {rows} rows of {shape}")
        tensors.append(TensorLayout(name, value["dtype"], tuple(shape), first + begin, row_bytes))
    tensors.sort(key=lambda tensor: (tensor.begin, -BYTES[tensor.dtype], tensor.name))
    for tensor in tensors:
        if tensor.begin != first:
            raise ValueError("its tensors do not lie one behind the other")
        first += tensor.row_bytes * count
    return tuple(tensors)


def _read(file: BinaryIO, tensor: TensorLayout, row: int) -> bytes:
    """Read a tensor of a row. Raises OSError if the file ends earlier."""
    file.seek(tensor.begin + row * tensor.row_bytes)
    data = file.read(tensor.row_bytes)
    if len(data) != tensor.row_bytes:
        raise OSError("a shard has become shorter while it was read")
    return data
