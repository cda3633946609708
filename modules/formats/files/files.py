"""Files that appear complete or not at all, and are the same bytes for the same content."""

import glob
import hashlib
import json
import os
import secrets
import shutil
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from modules.formats.files.tensor_source import DTYPES, LazyTensor
from onetrainer.errors import UserError

WORDS = {dtype: word for word, dtype in DTYPES.items()}
ORDER = {dtype: place for place, dtype in enumerate(DTYPES.values())}
ALIGNMENT = 8  # of the header, so that tensors start at a multiple of it

# Hashes that other programs read. Source: sd-scripts' and modelspec 1.0.1's documents.
MODEL_HASH, LEGACY_HASH, SPEC_HASH = "sshs_model_hash", "sshs_legacy_hash", "modelspec.hash_sha256"
HASHES = (MODEL_HASH, LEGACY_HASH, SPEC_HASH)
UNKNOWN_HASHES = {MODEL_HASH: "0" * 64, LEGACY_HASH: "0" * 8, SPEC_HASH: "0x" + "0" * 64}
LEGACY_START, LEGACY_SIZE = 0x100000, 0x10000

TEMPORARY_START, TEMPORARY_END = ".onetrainer-", ".part"
TOKEN_BYTES = 4
LONGEST_NAME = 50  # characters of a target's name: up to 200 bytes of the 255 that are allowed
LEFTOVER_AGE = 3600.0  # seconds


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the path's place when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _temporary(path)
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    _remove_leftovers(path)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which takes the path's place when the block ends without an error.

    Where the path is a link, the link is replaced and what it leads to stays.
    """
    part, old = _temporary(path), _temporary(path)
    is_placed = False
    part.mkdir(parents=True)
    try:
        yield part
        if _is_taken(path):
            path.rename(old)
        part.rename(path)
        is_placed = True
    finally:
        _remove(part)
        if is_placed:
            _remove(old)
        elif _is_taken(old) and not _is_taken(path):
            old.rename(path)
    _remove_leftovers(path)


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
    if the path is taken, or a folder, or the disk has too little room.
    The library's own writer shuffles the metadata anew in every process, and needs every tensor at
    once; the tensors' bytes are the same.
    """
    metadata = {**metadata, **UNKNOWN_HASHES} if hashes else metadata
    ordered = _ordered(tensors)
    header = _header(ordered, metadata)
    refuse_folder(path)
    if not overwrite:
        refuse_existing(path)
    require_space(path, len(header) + bytes_of(tensors))
    digests = _Digests(_header(ordered, _legacy_metadata(metadata)))
    with atomic_write(path) as file:
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
    if _is_taken(path):
        raise UserError(
            f"{path}: this {'folder' if path.is_dir() else 'file'} exists already",
            "A name that is not taken was expected",
            "Choose another name, or allow overwriting",
        )


def refuse_folder(path: Path) -> None:
    """Raises UserError if there is a folder at the path, which no file ever replaces."""
    if path.is_dir():
        raise UserError(f"{path}: this is a folder", "A file was expected", "Choose another name")


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
    """A number of bytes in the largest unit that it reaches."""
    for unit, name in ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")):
        if count >= unit:
            return f"{count / unit:.2f} {name}"
    return f"{count} bytes"


def _temporary(path: Path) -> Path:
    """A name beside the path that nobody has; hidden, since what it names is not whole yet."""
    token = secrets.token_hex(TOKEN_BYTES)
    return path.absolute().with_name(f"{_start(path)}{token}{TEMPORARY_END}")


def _start(path: Path) -> str:
    return f"{TEMPORARY_START}{path.absolute().name[:LONGEST_NAME]}-"


def _remove_leftovers(path: Path) -> None:
    """Removes what a writing to this path left behind when its process was killed.

    Only names that nobody but this file gives, and only old ones: younger ones are perhaps being
    written by another process.
    """
    pattern = glob.escape(_start(path)) + "[0-9a-f]" * (2 * TOKEN_BYTES) + TEMPORARY_END
    with suppress(OSError):  # what had to be written is written
        for leftover in path.absolute().parent.glob(pattern):
            if time.time() - leftover.lstat().st_mtime > LEFTOVER_AGE:
                _remove(leftover)


def _is_taken(path: Path) -> bool:
    """Whether there is anything at the path, also a link that leads nowhere."""
    return path.is_symlink() or path.exists()


def _remove(path: Path) -> None:
    """Removes a file, a folder with all that is in it, or a link and not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
