"""The cache folder: one checked file for each encoded picture, mask and caption.

Entries are named by a digest of all that decides their content, so they are never out of date:
what has changed has another name, and nothing needs to be cleared.
"""

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from onetrainer.errors import UserError

Kind = Literal["latents", "masks", "text"]

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_LENGTH_BYTES = 8
"""A safetensors file begins with the length of its JSON header, in as many bytes."""


class DamagedEntry(Exception):
    """An entry that is there and cannot be used: cut off, or not what was once written."""


def entry_key(*parts: str | int) -> str:
    """A name that differs wherever any of what decides an entry's content does."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class Entries:
    """Named tensors in a folder, complete or not there; several runs may share it.

    Every method but `get` raises UserError if the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)

    def get(self, kind: Kind, key: str) -> dict[str, Tensor] | None:
        """An entry's tensors; None if there is none. Raises DamagedEntry."""
        try:
            data = self._path(kind, key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DamagedEntry(str(error)) from error
        try:
            header, body = _parts(data)
            if json.loads(header)["__metadata__"]["sha256"] != _checksum(body):
                raise DamagedEntry("its checksum does not fit")
            return safetensors.torch.load(data)
        except (ValueError, LookupError, TypeError, SafetensorError) as error:
            raise DamagedEntry(str(error)) from error

    def put(self, kind: Kind, key: str, tensors: Mapping[str, Tensor]) -> None:
        """Keeps tensors, on the CPU, under a key."""
        path = self._path(kind, key)
        part = path.with_suffix(f".{os.getpid()}.part")
        with writing(self.folder):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                part.write_bytes(_file_bytes(tensors))
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)

    def discard(self, kind: Kind, key: str) -> None:
        """Removes an entry, if it is there."""
        with writing(self.folder):
            self._path(kind, key).unlink(missing_ok=True)

    def _path(self, kind: Kind, key: str) -> Path:
        # 256 folders: file managers and some file systems crawl through one of 100,000 files.
        return self.folder / kind / key[:2] / f"{key}.safetensors"


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Tells in words why something could not be written to the cache folder."""
    try:
        yield
    except OSError as error:
        remedy = 'Choose another "Cache folder"'
        if error.errno in _DISK_FULL:
            what = f"{folder}: the disk is full, so encoded pictures cannot be kept"
            raise UserError(
                what, "A picture of 512 px takes 0.13 MB", f"Free space. {remedy}"
            ) from error
        what = f"{folder}: the cache folder cannot be written ({error.strerror or error})"
        raise UserError(what, "A folder that can be written is needed", remedy) from error


def _file_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """A safetensors file that carries the checksum of its own tensors.

    The format notices what is missing but not what is altered; hence a checksum, which can only
    be known once the tensors are laid out: the first serialising.
    """
    contents = {name: tensor.contiguous() for name, tensor in tensors.items()}
    _, body = _parts(safetensors.torch.save(contents))
    return safetensors.torch.save(contents, metadata={"sha256": _checksum(body)})


def _parts(data: bytes) -> tuple[bytes, memoryview]:
    """A safetensors file's JSON header and its tensors' bytes."""
    start = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    return data[_LENGTH_BYTES:start], memoryview(data)[start:]


def _checksum(body: memoryview) -> str:
    return hashlib.sha256(body).hexdigest()
