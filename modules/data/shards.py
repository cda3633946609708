"""Encoded pictures, masks and captions on disk, read without copying them: memory-mapped shards.

What is put is on disk at once, in a file of its own; `seal` merges such files into large ones.
Reading costs a lookup and, at an entry's first reading in a process, its checksum.
"""

import io
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from modules.formats.files.tensor_source import DTYPES
from onetrainer.cache.errors import writing
from onetrainer.cache.format import (
    KINDS,
    SHARD_BYTES,
    DamagedEntry,
    InvalidShard,
    Kind,
    Shard,
    checksum,
    entry_bytes,
    entry_key,
    new_name,
    read_header,
    read_shard,
    write_file,
)
from onetrainer.cache.index import CacheIndex
from onetrainer.cache.merge import merge_small_shards
from onetrainer.errors import UserError

__all__ = ["DamagedEntry", "Kind", "Places", "Store", "entry_key"]

SEALED_AT = 2048
"""So many files of single entries are merged at the latest: folders of 100,000 files are slow."""

_WORDS = {dtype: word for word, dtype in DTYPES.items()}
_TRIES = 3
_AT_ONCE = 1000
_SAYS_ALIVE_EVERY_S = 1800.0


@dataclass(frozen=True)
class Places:
    """Where entries are, in the order of the keys that were asked for.

    shard, row: int32, (N,); a shard's number means something to the store that gave it. -1 where
    there is no such entry.
    """

    kind: Kind
    shard: NDArray[np.int32]
    row: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.shard)

    @property
    def missing(self) -> list[int]:
        """Which of the keys have no entry, in order."""
        return [int(place) for place in np.flatnonzero(self.shard < 0)]


class Store:
    """The cache folder of this process; other processes may use it at the same time.

    Any thread may use it. Every method that writes raises UserError if the folder cannot be
    written. damaged: what was found to be damaged, by name; it counts as missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with writing(folder):
            for kind in KINDS:
                (folder / kind).mkdir(parents=True, exist_ok=True)
        self._index = CacheIndex(folder)
        self._index.renew_lease()
        self._says_alive_at = monotonic() + _SAYS_ALIVE_EVERY_S
        self._lock = threading.RLock()
        self._mapped: list[_Mapped] = []
        self._numbers: dict[str, int] = {}
        self._new: dict[Kind, list[tuple[str, Shard]]] = {kind: [] for kind in KINDS}
        self._unsealed: dict[Kind, tuple[int, int]] = dict.fromkeys(KINDS, (0, 0))

    @property
    def damaged(self) -> list[str]:
        """What was found to be damaged so far."""
        return self._index.damaged

    def close(self) -> None:
        """Ends this use of the folder. What was read stays usable.

        A folder that cannot be written to any more is no error here: what was put is on disk, and
        whoever comes next finds it, and that this process is gone.
        """
        with self._lock:
            with suppress(UserError):
                for kind in KINDS:
                    self._take_up(kind)
            with suppress(UserError):
                self._index.close()
            self._index.database.close()

    def places(self, kind: Kind, keys: Sequence[bytes]) -> Places:
        """Where entries are; those that are there count as used now, and stay readable as long as
        this store lives.
        """
        with self._lock:
            self._take_up(kind)
            found = self._find(kind, keys)
            if found.missing:
                self._index.refresh(kind)  # another process may have made them
                found = self._find(kind, keys)
            return self._opened(found, keys)

    def has(self, kind: Kind, key: bytes) -> bool:
        """Whether an entry was put, or was there when the folder was last looked at.

        Cheaper than `places`, and no use of it.
        """
        with self._lock:
            if any(shard.keys == key for _, shard in self._new[kind]):
                return True
        return next(self._index.find(kind, [key])) is not None

    def put(self, kind: Kind, key: bytes, tensors: Mapping[str, Tensor]) -> None:
        """Keeps tensors, on the CPU, under a key; they are on disk then, whole."""
        data = entry_bytes(key, {name: _laid_out(tensor) for name, tensor in tensors.items()})
        name = new_name()
        path = self.folder / kind / name
        with writing(self.folder):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, [data])
        with self._lock:
            self._new[kind].append((name, read_header(io.BytesIO(data), len(data))))
            count, size = self._unsealed[kind]
            self._unsealed[kind] = count + 1, size + len(data)
            if count + 1 >= SEALED_AT or size + len(data) >= SHARD_BYTES:
                self.seal(kind)

    def seal(self, kind: Kind) -> None:
        """Merges what was put singly into shards. Places found before stay right."""
        with self._lock:
            self._take_up(kind)
            self._unsealed[kind] = 0, 0
            merge_small_shards(self._index, kind)

    def get(self, kind: Kind, key: bytes) -> dict[str, Tensor] | None:
        """An entry's tensors; None if there is none. Raises DamagedEntry.

        For a few; what other processes have made since this store was opened is not looked for.
        """
        with self._lock:
            self._take_up(kind)
            places = self._opened(self._find(kind, [key]), [key])
        return None if places.missing else self.read(places, 0)

    def read(self, places: Places, i: int) -> dict[str, Tensor]:
        """The tensors of the i-th entry: views of the file, which must not be changed.

        Raises DamagedEntry; the entry counts as missing from then on.
        """
        if places.shard[i] < 0:
            raise ValueError(f"{i} is missing")
        self._say_alive()
        mapped, row = self._mapped[places.shard[i]], int(places.row[i])
        self._check(mapped, row)
        return {name: rows.tensor(row) for name, rows in mapped.rows.items()}

    def gather(self, places: Places, rows: Sequence[int], name: str) -> Tensor:
        """One tensor of several entries, (B, ...), copied once. Raises DamagedEntry, ValueError.

        rows: which of the places; all of one shape.
        """
        numbers, at = places.shard[rows], places.row[rows]
        if len(at) == 0 or numbers.min() < 0:
            raise ValueError("rows without an entry")
        self._say_alive()
        sources = [self._mapped[number] for number in numbers.tolist()]
        for mapped, row in zip(sources, at.tolist(), strict=True):
            self._check(mapped, row)
        first = sources[0].rows[name]
        # numpy's copies take half the time of torch's here, which are given fresh memory each time.
        if all(mapped is sources[0] for mapped in sources):
            out = first.bytes.take(at, axis=0)
        else:
            out = np.empty((len(at), first.bytes.shape[1]), np.uint8)
            for place, (mapped, row) in enumerate(zip(sources, at.tolist(), strict=True)):
                if (source := mapped.rows[name]).is_unlike(first):
                    raise ValueError(f"{name}: {source.shape} among {first.shape}")
                out[place] = source.bytes[row]
        flat = torch.from_numpy(out.reshape(-1))
        return flat.view(first.dtype).view(len(at), *first.shape)

    def verify(self) -> None:
        """Tests all that may be read and was not yet; what is damaged counts as missing then."""
        for mapped in list(self._mapped):
            for row in range(len(mapped.is_checked)):
                with suppress(DamagedEntry):
                    self._check(mapped, row)

    def _find(self, kind: Kind, keys: Sequence[bytes]) -> Places:
        shard, row = (np.full(len(keys), -1, np.int32) for _ in range(2))
        for i, place in enumerate(self._index.find(kind, keys)):
            if place is not None:
                shard[i], row[i] = self._number(kind, place.shard), place.row
        return Places(kind, shard, row)

    def _number(self, kind: Kind, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._mapped)
            self._mapped.append(_Mapped(kind, name))
        return number

    def _opened(self, found: Places, keys: Sequence[bytes]) -> Places:
        """The places, all of which are mapped and hold what was asked for, as far as possible."""
        for _ in range(_TRIES):
            unusable = self._map(found)
            if unusable:
                self._index.refresh(found.kind)  # another process has merged or removed some
            elif wrong := self._wrong(found, keys):
                # Either the index is, or a file that is mapped has been replaced by another.
                for name in {self._mapped[number].name for number in found.shard[wrong].tolist()}:
                    del self._numbers[name]
                self._index.database.rebuild()
            else:
                break
            found = self._find(found.kind, keys)
        else:
            for number in self._map(found):
                self._index.drop_shard(found.kind, self._mapped[number].name, "it cannot be read")
                is_available = found.shard == number
                found.shard[is_available] = found.row[is_available] = -1
            wrong = self._wrong(found, keys)
            found.shard[wrong] = found.row[wrong] = -1
        self._index.mark_used(found.kind, keys)
        return found

    def _map(self, places: Places) -> list[int]:
        """Opens what is to be read, so that it stays readable whatever becomes of the file.

        Gives the numbers of the shards that could not be opened.
        """
        unusable = []
        for number in np.unique(places.shard[places.shard >= 0]).tolist():
            try:
                self._mapped[number].open(self.folder)
            except (OSError, InvalidShard, RuntimeError):  # the last is torch's
                unusable.append(number)
        return unusable

    def _wrong(self, places: Places, keys: Sequence[bytes]) -> list[int]:
        """Of which keys the index told an untruth: that would give one picture for another."""
        wrong = []
        for begin in range(0, len(keys), _AT_ONCE):
            some = slice(begin, begin + _AT_ONCE)
            told = zip(places.shard[some].tolist(), places.row[some].tolist(), strict=True)
            for i, ((number, row), key) in enumerate(zip(told, keys[some], strict=True), begin):
                if number >= 0 and self._mapped[number].key(row) != key:
                    wrong.append(i)
        return wrong

    def _check(self, mapped: "_Mapped", row: int) -> None:
        """At an entry's first reading: whether it is what was once written."""
        if mapped.is_checked[row]:
            return
        if not mapped.is_intact(row):
            # Where the folder takes no more, that the entry is no use is what matters.
            with suppress(UserError):
                self._index.drop(mapped.kind, mapped.name, row, mapped.key(row))
            raise DamagedEntry(f"{mapped.kind}/{mapped.name}: entry {row}")
        mapped.is_checked[row] = True

    def _say_alive(self) -> None:
        """Now and then, for other computers that use the folder."""
        if monotonic() < self._says_alive_at:
            return
        self._says_alive_at = monotonic() + _SAYS_ALIVE_EVERY_S
        with suppress(UserError):  # what is read has nothing to do with it
            self._index.renew_lease()

    def _take_up(self, kind: Kind) -> None:
        if self._new[kind]:
            self._index.add(kind, self._new[kind])
            self._new[kind] = []


@dataclass(frozen=True)
class _Rows:
    """One of a shard's tensors as memory. bytes: uint8, (N, row_bytes). shape: of one row."""

    bytes: NDArray[np.uint8]
    dtype: torch.dtype
    shape: tuple[int, ...]

    def tensor(self, row: int) -> Tensor:
        """One row, not copied."""
        return torch.from_numpy(self.bytes[row]).view(self.dtype).view(self.shape)

    def is_unlike(self, other: "_Rows") -> bool:
        """Whether rows of both cannot be stacked."""
        return (self.dtype, self.shape) != (other.dtype, other.shape)


class _Mapped:
    """A shard as memory: its tensors are the file. rows is empty until it is opened."""

    def __init__(self, kind: Kind, name: str) -> None:
        self.kind = kind
        self.name = name
        self.rows: dict[str, _Rows] = {}
        self.is_checked = bytearray()

    def open(self, folder: Path) -> None:
        """Maps the file, unless it is already. Raises OSError, NoShard, RuntimeError."""
        if self.rows:
            return
        path = folder / self.kind / self.name
        shard = read_shard(path)
        # torch maps it without keeping a file descriptor: there may be more shards than those.
        # Not shared: whoever writes into a view by mistake changes a copy, never the file.
        storage = torch.UntypedStorage.from_file(str(path), shared=False, nbytes=shard.size)
        assert isinstance(storage, torch.UntypedStorage)
        whole = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
        rows = {}
        for part in shard.tensors:
            piece = whole[part.begin : part.begin + shard.count * part.row_bytes]
            piece = piece.reshape(shard.count, part.row_bytes)
            rows[part.name] = _Rows(piece, DTYPES[part.dtype], part.shape)
        self._shard = shard
        self._signature = shard.signature
        self.is_checked = bytearray(shard.count)
        self.rows = rows

    def key(self, row: int) -> bytes:
        """An entry's key."""
        return self._shard.key(row)

    def is_intact(self, row: int) -> bool:
        """Whether an entry is what was once written."""
        data = (rows.bytes[row].data for rows in self.rows.values())
        return checksum(self.key(row), self._signature, data) == self._shard.checksums[row]


def _laid_out(tensor: Tensor) -> tuple[str, tuple[int, ...], memoryview]:
    """A tensor's type and shape in safetensors' words, and its bytes."""
    flat = tensor.detach().contiguous().reshape(-1)
    return _WORDS[tensor.dtype], tuple(tensor.shape), flat.view(torch.uint8).numpy().data
