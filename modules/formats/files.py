"""Files that appear complete or not at all, and are the same bytes for the same content."""

import hashlib
import json
import os
import shutil
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from modules.formats.tensor_source import DTYPES, LazyTensor
from onetrainer.errors import UserError

WORDS = {dtype: word for word, dtype in DTYPES.items()}
ORDER = {dtype: place for place, dtype in enumerate(DTYPES.values())}
ALIGNMENT = 8  # of the header, so that tensors start at a multiple of it

# Hashes that other programs read. Source: sd-scripts' and modelspec 1.0.1's documents.
MODEL_HASH, LEGACY_HASH, SPEC_HASH = "sshs_model_hash", "sshs_legacy_hash", "modelspec.hash_sha256"
HASHES = (MODEL_HASH, LEGACY_HASH, SPEC_HASH)
UNKNOWN_HASHES = {MODEL_HASH: "0" * 64, LEGACY_HASH: "0" * 8, SPEC_HASH: "0x" + "0" * 64}
LEGACY_START, LEGACY_SIZE = 0x100000, 0x10000

GIB = 1024**3


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the path's place when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_safetensors(
    path: Path,
    tensors: Mapping[str, Tensor | LazyTensor],
    metadata: Mapping[str, str],
    *,
    overwrite: bool = True,
    hashes: bool = False,
) -> None:
    """A safetensors file whose bytes depend on its content alone, written tensor by tensor.

    tensors: on any device. overwrite: whether an existing file is replaced or refused.
    hashes: adds the model's hashes to the metadata. Raises UserError, before anything is written,
    if the path is taken or the disk has too little room.
    The library's own writer shuffles the metadata anew in every process, and needs every tensor at
    once; the tensors' bytes are the same.
    """
    metadata = {**metadata, **UNKNOWN_HASHES} if hashes else metadata
    ordered = _ordered(tensors)
    header = _header(ordered, metadata)
    if not overwrite:
        refuse_existing(path)
    require_space(path, len(header) + bytes_of(tensors))
    digests = _Digests(_header(ordered, _legacy_metadata(metadata)))
    with replacing(path) as file:
        file.write(header)
        for tensor in ordered.values():
            data = _data(tensor)
            file.write(data)
            if hashes:
                digests.update(data)
        if hashes:
            file.seek(0)
            file.write(_header(ordered, {**metadata, **digests.found()}))


def bytes_of(tensors: Mapping[str, Tensor | LazyTensor]) -> int:
    """How much room tensors take in a file."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def refuse_existing(path: Path) -> None:
    """Raises UserError if there is something at the path."""
    if path.exists():
        raise UserError(
            f"{path}: this {'folder' if path.is_dir() else 'file'} exists already",
            "A name that is not taken was expected",
            "Choose another name, or allow overwriting",
        )


def require_space(path: Path, needed: int) -> None:
    """Raises UserError unless the disk that the path is on has so many bytes free."""
    place = path.absolute().parent
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < needed:
        raise UserError(
            f"{path}: {_size(needed)} are needed, and the disk has {_size(free)} free",
            "Enough room for the whole file was expected",
            "Make room on this disk, or choose a place on another one",
        )


@dataclass
class _Digests:
    """The hashes of a file, fed with the bytes behind its header.

    start: what the same file would begin with if it had its ss_* metadata only; the legacy hash
    is over a window of that file.
    """

    start: bytes
    everything: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    window: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    position: int = 0

    def __post_init__(self) -> None:
        self._update_window(memoryview(self.start))

    def update(self, data: memoryview) -> None:
        self.everything.update(data)
        self._update_window(data)

    def found(self) -> dict[str, str]:
        digest = self.everything.hexdigest()
        legacy = self.window.hexdigest()[: len(UNKNOWN_HASHES[LEGACY_HASH])]
        return {MODEL_HASH: digest, LEGACY_HASH: legacy, SPEC_HASH: "0x" + digest}

    def _update_window(self, data: memoryview) -> None:
        begin = max(LEGACY_START - self.position, 0)
        end = max(LEGACY_START + LEGACY_SIZE - self.position, 0)
        self.window.update(data[begin:end])
        self.position += len(data)


def _ordered(tensors: Mapping[str, Tensor | LazyTensor]) -> dict[str, Tensor | LazyTensor]:
    """By dtype, widest first, then by name, as the library does: every tensor is aligned."""
    return dict(sorted(tensors.items(), key=lambda item: (-ORDER[item[1].dtype], item[0])))


def _header(tensors: Mapping[str, Tensor | LazyTensor], metadata: Mapping[str, str]) -> bytes:
    """Length and table; as long for any metadata of the same length."""
    table: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.numel() * tensor.element_size()
        table[name] = {
            "dtype": WORDS[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return struct.pack("<Q", len(text)) + text


def _legacy_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if key.startswith("ss_")}


def _data(tensor: Tensor | LazyTensor) -> memoryview:
    """Little-endian, as every machine that runs torch is."""
    if isinstance(tensor, LazyTensor):
        made = tensor.read()
        assert (made.dtype, made.shape) == (tensor.dtype, tensor.shape)
        tensor = made
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data


def _size(count: int) -> str:
    return f"{count / GIB:.2f} GiB"
