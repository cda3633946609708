"""Write files of tensors, with the same bytes for the same content."""

import hashlib
import json
import shutil
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from modules.formats.files.tensor_source import DTYPES, LazyTensor
from onetrainer.errors import UserError
from onetrainer.files.atomic import atomic_file, is_taken, remove_leftovers
from onetrainer.files.own_json import NotOurs, parse_json
from onetrainer.messages.formatting import format_size
from onetrainer.redaction import without_tokens, without_tokens_inside

DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
DTYPE_ORDER = {dtype: position for position, dtype in enumerate(DTYPES.values())}
ALIGNMENT = 8  # of the header, so that tensors start at a multiple of it

# Hashes that other programs read. Source: documentation of sd-scripts and ModelSpec 1.0.1.
MODEL_HASH, LEGACY_HASH, SPEC_HASH = "sshs_model_hash", "sshs_legacy_hash", "modelspec.hash_sha256"
HASHES = (MODEL_HASH, LEGACY_HASH, SPEC_HASH)
UNKNOWN_HASHES = {MODEL_HASH: "0" * 64, LEGACY_HASH: "0" * 8, SPEC_HASH: "0x" + "0" * 64}
LEGACY_START, LEGACY_SIZE = 0x100000, 0x10000


def write_safetensors(
    path: Path,
    tensors: Mapping[str, Tensor | LazyTensor],
    metadata: Mapping[str, str],
    *,
    overwrite: bool = True,
    hashes: bool = False,
) -> None:
    """Write a safetensors file, tensor by tensor, whose bytes depend on its content alone.

    The library's writer shuffles the metadata in every process, and needs all tensors at once; the
    tensors' bytes are the same.

    tensors: On any device.
    overwrite: Whether an existing file is replaced or refused.
    hashes: Add the model's hashes to the metadata.

    Raises:
        UserError: Before writing, if the path exists or is a folder, or the disk has too little
            space.
    """
    metadata = {**metadata, **UNKNOWN_HASHES} if hashes else metadata
    ordered = _ordered(tensors)
    header = _header(ordered, metadata)
    refuse_folder(path)
    if not overwrite:
        refuse_existing(path)
    require_space(path, len(header) + byte_count(tensors))
    legacy_metadata = {key: text for key, text in metadata.items() if key.startswith("ss_")}
    digests = _Digests(_header(ordered, legacy_metadata))
    with atomic_file(path) as file:
        file.write(header)
        for tensor in ordered.values():
            data = _data(tensor)
            file.write(data)
            if hashes:
                digests.update(data)
        if hashes:
            file.seek(0)
            file.write(_header(ordered, {**metadata, **digests.hashes()}))


def safetensors_pieces(
    tensors: Mapping[str, Tensor | LazyTensor], metadata: Mapping[str, str]
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a safetensors file: its header, then one tensor after the other."""
    ordered = _ordered(tensors)
    yield _header(ordered, metadata)
    for tensor in ordered.values():
        yield _data(tensor)


def _without_tokens(text: str) -> str:
    """Return a text of the metadata without tokens; JSON stays JSON."""
    if without_tokens(text) == text:
        return text
    try:
        return json.dumps(without_tokens_inside(parse_json(text)), ensure_ascii=False)
    except NotOurs:
        return without_tokens(text)


def byte_count(tensors: Mapping[str, Tensor | LazyTensor]) -> int:
    """Return the size of tensors in a file."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def refuse_existing(path: Path) -> None:
    """Raise UserError if the path exists."""
    if is_taken(path):
        raise UserError(
            f"{path}: this {'folder' if path.is_dir() else 'file'} already exists",
            "Expected an unused name",
            "Choose another name, or allow overwriting (--overwrite)",
        )


def refuse_folder(path: Path) -> None:
    """Raise UserError if the path is a folder, which a file never replaces."""
    if path.is_dir():
        raise UserError(f"{path}: this is a folder", "Expected a file", "Choose another name")


def require_space(path: Path, needed: int, *, option: str = "") -> None:
    """Raise UserError unless the disk of a file to write has this many bytes free.

    option: What chooses its folder, in parentheses.
    """
    folder = path.absolute().parent
    remove_leftovers(folder)  # as large as the file itself
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UserError(
            f"{path}: {format_size(needed)} are needed, and the disk has {format_size(free)} free",
            "Expected enough space for everything",
            f"Free some space on this disk, or choose a folder on another one{option}",
        )


@dataclass
class _Digests:
    """Hashes of a file, updated with the bytes after its header.

    start: The header of the same file with its ss_* metadata only; the legacy hash covers a window
    of that file.
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

    def hashes(self) -> dict[str, str]:
        digest = self.everything.hexdigest()
        legacy = self.window.hexdigest()[: len(UNKNOWN_HASHES[LEGACY_HASH])]
        return {MODEL_HASH: digest, LEGACY_HASH: legacy, SPEC_HASH: "0x" + digest}

    def _update_window(self, data: memoryview) -> None:
        begin = max(LEGACY_START - self.position, 0)
        end = max(LEGACY_START + LEGACY_SIZE - self.position, 0)
        self.window.update(data[begin:end])
        self.position += len(data)


def _ordered(
    tensors: Mapping[str, Tensor | LazyTensor],
) -> dict[str, Tensor | LazyTensor]:
    """Order by dtype, widest first, then by name, as the library does: so each is aligned."""
    return dict(sorted(tensors.items(), key=lambda item: (-DTYPE_ORDER[item[1].dtype], item[0])))


def _header(tensors: Mapping[str, Tensor | LazyTensor], metadata: Mapping[str, str]) -> bytes:
    """Return length and table; their size depends on the metadata's size alone."""
    said = {key: _without_tokens(metadata[key]) for key in sorted(metadata)}
    table: dict[str, object] = {"__metadata__": said}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.numel() * tensor.element_size()
        table[name] = {
            "dtype": DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return struct.pack("<Q", len(text)) + text


def _data(tensor: Tensor | LazyTensor) -> memoryview:
    """Return a tensor's bytes; little-endian, as on every platform of torch."""
    if isinstance(tensor, LazyTensor):
        made = tensor.read()
        assert (made.dtype, made.shape) == (tensor.dtype, tensor.shape)
        tensor = made
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    flat = flat.as_strided(flat.shape, (1,))  # a single element may have any stride
    return flat.view(torch.uint8).numpy().data
