"""Cache of encoded images, masks and captions: memory-mapped shards, read without copying.

A new entry is written at once, to a file of its own; `seal` merges such files into shards. Reading
costs a lookup and, at an entry's first reading in a process, its checksum.
"""

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import monotonic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from modules.formats.files.tensor_source import DTYPES
from onetrainer.cache.database import writing
from onetrainer.cache.format import (
    KINDS,
    SHARD_BYTES,
    DamagedEntry,
    InvalidShard,
    Kind,
    checksum,
    entry_bytes,
    entry_key,
    new_name,
    read_shard,
    write_file,
)
from onetrainer.cache.index import CacheIndex
from onetrainer.cache.merge import merge
from onetrainer.errors import UserError
from onetrainer.files.atomic import remove_leftovers
from onetrainer.files.inside import require_no_link

__all__ = ["DamagedEntry", "EntryLocations", "Kind", "Store", "entry_key"]

SEALED_AT = 2048
"""Files of single entries that are merged at the latest: folders of 100,000 files are slow."""

_DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_TRIES = 3
_LEASE_INTERVAL_S = 1800.0


@dataclass(frozen=True)
class EntryLocations:
    """The locations of entries, in the order of their keys.

    shard, row: int32, (N,); shard numbers are those of the store. -1 for keys without an entry.
    """

    kind: Kind
    shard: NDArray[np.int32]
    row: NDArray[np.int32]

    @property
    def missing(self) -> list[int]:
        """Indices of the keys without an entry."""
        return [int(index) for index in np.flatnonzero(self.shard < 0)]


class Store:
    """The cache folder of this process; other processes may use it at the same time.

    Thread-safe. Every method that writes raises UserError if the folder is not writable.
    damaged: the names of entries found damaged, which count as missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with writing(folder):
            for kind in KINDS:
                require_no_link(folder / kind)
                (folder / kind).mkdir(parents=True, exist_ok=True)
                remove_leftovers(folder / kind)
        self._index = CacheIndex(folder)
        self._index.renew_lease()
        self._lease_renewal = monotonic() + _LEASE_INTERVAL_S
        self._lock = threading.RLock()
        self._mapped: list[_MappedShard] = []
        self._numbers: dict[str, int] = {}
        self._unsealed: dict[Kind, tuple[int, int]] = dict.fromkeys(KINDS, (0, 0))

    @property
    def damaged(self) -> list[str]:
        """Names of the entries found damaged so far."""
        return self._index.damaged

    def close(self) -> None:
        """End the use of the folder. Tensors that were read stay usable.

        A folder that is no longer writable is no error here: the entries are on disk, and the next
        process finds them, and notices that this one ended.
        """
        with self._lock:
            with suppress(UserError):
                self._index.close()
            self._index.database.close()

    def locate(self, kind: Kind, keys: Sequence[bytes]) -> EntryLocations:
        """Locate entries, and mark them as used; they stay readable while this store lives."""
        with self._lock:
            located = self._find(kind, keys)
            if located.missing:
                self._index.refresh(kind)  # they may have been written since, by any process
                located = self._find(kind, keys)
            for _ in range(_TRIES):
                if self._map(located):
                    self._index.refresh(kind)  # another process has merged or removed some
                elif wrong := self._wrong(located, keys):
                    # Either the index is wrong, or a mapped file has been replaced.
                    for number in np.unique(located.shard[wrong]).tolist():
                        del self._numbers[self._mapped[number].name]
                    self._index.database.rebuild()
                else:
                    break
                located = self._find(kind, keys)
            else:
                self._drop_unusable(located, keys)
            self._index.mark_used(kind, keys)
            return located

    def has(self, kind: Kind, key: bytes) -> bool:
        """Return whether there was an entry when the folder was last searched.

        Cheaper than `locate`, and does not mark it as used.
        """
        return next(self._index.find(kind, [key])) is not None

    def put(self, kind: Kind, key: bytes, tensors: Mapping[str, Tensor]) -> None:
        """Write tensors, on the CPU, under a key, atomically."""
        data = entry_bytes(key, {name: _raw(tensor) for name, tensor in tensors.items()})
        path = self.folder / kind / new_name()
        with writing(self.folder):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, [data])
        with self._lock:
            count, size = self._unsealed[kind]
            self._unsealed[kind] = count + 1, size + len(data)
            if count + 1 >= SEALED_AT or size + len(data) >= SHARD_BYTES:
                self.seal(kind)

    def seal(self, kind: Kind) -> None:
        """Merge single entries into shards. Earlier locations stay valid."""
        with self._lock:
            self._unsealed[kind] = 0, 0
            self._index.refresh(kind)
            merge(self._index, kind)

    def get(self, kind: Kind, key: bytes) -> dict[str, Tensor] | None:
        """Return an entry's tensors; None if there is none. Raises DamagedEntry."""
        located = self.locate(kind, [key])
        return None if located.missing else self.read(located, 0)

    def read(self, locations: EntryLocations, i: int) -> dict[str, Tensor]:
        """Return the tensors of the i-th entry, backed by the file: they must not be changed.

        Raises DamagedEntry; the entry counts as missing from then on.
        """
        if locations.shard[i] < 0:
            raise ValueError(f"{i} is missing")
        self.renew_lease()
        mapped, row = self._mapped[locations.shard[i]], int(locations.row[i])
        self._check(mapped, row)
        return {name: rows.values[row] for name, rows in mapped.rows.items()}

    def verify(self) -> None:
        """Check all located entries that were not read yet; damaged ones become missing."""
        for mapped in list(self._mapped):
            for row in range(len(mapped.is_checked)):
                with suppress(DamagedEntry):
                    self._check(mapped, row)

    def _find(self, kind: Kind, keys: Sequence[bytes]) -> EntryLocations:
        shard, row = (np.full(len(keys), -1, np.int32) for _ in range(2))
        for i, entry in enumerate(self._index.find(kind, keys)):
            if entry is None:
                continue
            if entry.shard not in self._numbers:
                self._numbers[entry.shard] = len(self._mapped)
                self._mapped.append(_MappedShard(kind, entry.shard))
            shard[i], row[i] = self._numbers[entry.shard], entry.row
        return EntryLocations(kind, shard, row)

    def _map(self, locations: EntryLocations) -> list[int]:
        """Map shards, so that they stay readable even if their files are deleted.

        Returns the numbers of the shards that could not be mapped.
        """
        unusable = []
        for number in np.unique(locations.shard[locations.shard >= 0]).tolist():
            try:
                self._mapped[number].open(self.folder)
            except (OSError, InvalidShard, RuntimeError):  # the last is torch's
                unusable.append(number)
        return unusable

    def _wrong(self, locations: EntryLocations, keys: Sequence[bytes]) -> list[int]:
        """Return the indices of locations whose entry has another key: a different image."""
        places = zip(locations.shard.tolist(), locations.row.tolist(), keys, strict=True)
        return [
            i
            for i, (number, row, key) in enumerate(places)
            if number >= 0 and self._mapped[number].key(row) != key
        ]

    def _drop_unusable(self, located: EntryLocations, keys: Sequence[bytes]) -> None:
        """Drop shards that cannot be mapped, and change locations of no use to missing."""
        for number in self._map(located):
            self._index.drop_shard(located.kind, self._mapped[number].name, "it cannot be read")
            located.shard[located.shard == number] = -1
        located.shard[self._wrong(located, keys)] = -1
        located.row[located.shard < 0] = -1

    def _check(self, mapped: "_MappedShard", row: int) -> None:
        """Verify an entry's checksum at its first reading."""
        if mapped.is_checked[row]:
            return
        if not mapped.is_intact(row):
            # If the folder is not writable, the damage is still what matters.
            with suppress(UserError):
                self._index.drop(mapped.kind, mapped.name, row, mapped.key(row))
            raise DamagedEntry(f"{mapped.kind}/{mapped.name}: entry {row}")
        mapped.is_checked[row] = True

    def renew_lease(self) -> None:
        """Renew the lease from time to time, for other computers that use the folder."""
        if monotonic() < self._lease_renewal:
            return
        self._lease_renewal = monotonic() + _LEASE_INTERVAL_S
        with suppress(UserError):  # reading does not depend on it
            self._index.renew_lease()


@dataclass(frozen=True)
class _Rows:
    """One of a shard's tensors in memory. bytes: uint8, (N, row_bytes). shape: of one row."""

    bytes: NDArray[np.uint8]
    dtype: torch.dtype
    shape: tuple[int, ...]

    @cached_property
    def values(self) -> Tensor:
        """All rows, (N, *shape), without copying them."""
        rows = torch.from_numpy(self.bytes).view(self.dtype)
        return rows.view(len(self.bytes), *self.shape)


class _MappedShard:
    """A memory-mapped shard. rows is empty until it is opened."""

    def __init__(self, kind: Kind, name: str) -> None:
        self.kind = kind
        self.name = name
        self.rows: dict[str, _Rows] = {}
        self.is_checked = bytearray()

    def open(self, folder: Path) -> None:
        """Map the file, unless it is mapped. Raises OSError, InvalidShard, RuntimeError."""
        if self.rows:
            return
        path = folder / self.kind / self.name
        shard = read_shard(path)
        # torch keeps no file descriptor, of which there may be fewer than shards.
        # Not shared: writing to a tensor by mistake changes a copy, never the file.
        storage = torch.UntypedStorage.from_file(str(path), shared=False, nbytes=shard.size)
        assert isinstance(storage, torch.UntypedStorage)
        data = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
        rows = {}
        for tensor in shard.tensors:
            piece = data[tensor.begin : tensor.begin + shard.count * tensor.row_bytes]
            piece = piece.reshape(shard.count, tensor.row_bytes)
            rows[tensor.name] = _Rows(piece, DTYPES[tensor.dtype], tensor.shape)
        self._shard = shard
        self._signature = shard.signature
        self.is_checked = bytearray(shard.count)
        self.rows = rows

    def key(self, row: int) -> bytes:
        """Return an entry's key."""
        return self._shard.key(row)

    def is_intact(self, row: int) -> bool:
        """Return whether an entry matches its checksum."""
        data = (rows.bytes[row].data for rows in self.rows.values())
        return checksum(self.key(row), self._signature, data) == self._shard.checksums[row]


def _raw(tensor: Tensor) -> tuple[str, tuple[int, ...], memoryview]:
    """Return a tensor's dtype in safetensors' notation, its shape, and its bytes."""
    flat = tensor.detach().contiguous().reshape(-1)
    return _DTYPE_NAMES[tensor.dtype], tuple(tensor.shape), flat.view(torch.uint8).numpy().data
