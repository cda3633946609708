"""Encoding what the cache does not hold yet: threads decode, the VAE encodes, a thread writes."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from modules.data.cache_entries import LATENTS, Part, content
from modules.data.encoded_items import KEY_BYTES, Keys, Views
from modules.data.prefetch import Line, ahead
from modules.data.shards import Places, Store, entry_key
from modules.data.vae_batches import VaeBatches
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.items import Skipped
from onetrainer.images.image_file import ImageError

_LOOKED_UP = 1024
"""How many pictures are looked up at once."""

NOT_KEPT = "what it was encoded to is not in the cache any more"
NOT_A_NUMBER = "the VAE's result is not a number; another precision than fp16 may help"

Failures = list[tuple[int, str]]
"""Rows whose picture cannot be used, and why."""

_WRITTEN_BEHIND = 2
"""How many encoded batches may wait to be written; whatever waits is lost by a kill."""


class ImageDigests(Protocol):
    """What gives the SHA-256 of files, and remembers it as long as they do not change."""

    def digest(self, path: Path) -> str | None:
        """As of an earlier reading; None if the file has to be read."""
        ...

    def read(self, path: Path) -> tuple[bytes, str]:
        """The file's bytes too. Raises OSError."""
        ...


@dataclass(frozen=True)
class Work:
    """What all parts of some pictures have in common while they are encoded.

    encoder: what tells the VAE from others. threads: that decode. keeps: whether anything is kept;
    otherwise pictures are only looked at. ask: raises CachingStopped where asked to stop. tick:
    told whenever a view is done. failed: the pictures that cannot be used, by place.
    """

    views: Views
    store: Store
    memory: ImageDigests
    vae: VaeBatches
    encoder: str
    threads: int
    keeps: bool
    ask: Callable[[], None]
    tick: Callable[[], None]
    failed: dict[int, Skipped] = field(default_factory=dict)

    def fail(self, row: int, reason: str) -> None:
        """Leaves a picture out."""
        place, _ = self.views.shown(row)
        self.failed.setdefault(place, Skipped(self.views.items[place].path, reason))


@dataclass(frozen=True)
class _Made:
    """What a thread has made of a row.

    keys: of this and the following rows. size: of the batch in which an entry was found; 0 where
    none was. tensor: what is to be encoded or written; None where nothing is. failure: why the
    picture cannot be used; "" where it can.
    """

    row: int
    keys: tuple[bytes, ...] = ()
    size: int = 0
    tensor: Tensor | None = None
    failure: str = ""


class Filling:
    """One part of all pictures: the keys of its entries, and entries for all that lack one.

    The size of the batch that an entry was encoded in is part of its key, as it decides rounding.
    What was encoded in one of the smaller batches that a lack of memory leads to will do, too.
    """

    def __init__(self, work: Work, part: Part) -> None:
        self.part = part
        self.keys: Keys = np.zeros((work.views.rows, KEY_BYTES), np.uint8)
        self._work = work
        self._sizes: NDArray[np.uint8] = np.zeros(work.views.rows, np.uint8)
        self._accepted = _halves(work.vae.size) if part.is_encoded else (1,)
        self._new: dict[bytes, int] = {}
        self._lost: dict[bytes, str] = {}

    @property
    def total(self) -> int:
        """How many views are to be gone through."""
        return sum(len(self._rows(place)) for place in range(len(self._work.views.items)))

    def new_places(self) -> set[int]:
        """The pictures of which something was encoded now, and not found."""
        rows = range(self._work.views.rows if self._new else 0)
        new = [row for row in rows if self.keys[row].tobytes() in self._new]
        return {self._work.views.shown(row)[0] for row in new}

    def fill(self) -> None:
        """Makes whatever is missing. Raises CachingStopped, and UserError if it cannot be kept."""
        self._make(self._looked_up() if self._work.keeps else self._first_rows())

    def places(self) -> Places:
        """Where each row's entry is. What is gone by now is made again, once.

        Merging may have found it damaged, and another program may have removed it. Pictures whose
        entry is gone even then are left out.
        """
        places = self._placed()
        gone = self._gone(places)
        again = [row for row in gone if self.keys[row].tobytes() not in self._lost]
        if again:
            for row in again:
                self._new.pop(self.keys[row].tobytes(), None)
            self._make(self._ordered(again))
            places = self._placed()
            gone = self._gone(places)
        for row in gone:
            # Also where another file of the same picture was encoded in its place.
            self._work.fail(row, self._lost.get(self.keys[row].tobytes(), NOT_KEPT))
        return places

    def _placed(self) -> Places:
        keys = [
            _sized(key.tobytes(), int(size)) if size else b""
            for key, size in zip(self.keys, self._sizes, strict=True)
        ]
        return self._work.store.places(self.part.kind, keys)

    def _gone(self, places: Places) -> list[int]:
        """The rows that had an entry and have none."""
        return [row for row in places.missing if self._sizes[row]]

    def _rows(self, place: int) -> range:
        """The rows of a picture that are gone through."""
        views = self._work.views
        if place in self._work.failed or not self.part.files(views.items[place]):
            return range(0)
        rows = views.rows_of(place)
        return rows if self._work.keeps else rows[:1]

    def _first_rows(self) -> list[int]:
        places = range(len(self._work.views.items))
        return [rows[0] for place in places if (rows := self._rows(place))]

    def _looked_up(self) -> list[int]:
        """The rows that lack an entry: those of one size together, large ones first.

        Then a lack of memory shows at once.
        """
        missing: list[int] = []
        count = len(self._work.views.items)
        for begin in range(0, count, _LOOKED_UP):
            self._work.ask()
            known: list[int] = []
            for place in range(begin, min(begin + _LOOKED_UP, count)):
                rows = self._rows(place)
                (known if self._know(place, rows) else missing).extend(rows)
            absent = self._absent(known)
            missing += absent
            for _ in range(len(known) - len(absent)):
                self._work.tick()
        return self._ordered(missing)

    def _ordered(self, rows: Sequence[int]) -> list[int]:
        return sorted(rows, key=lambda row: (*self._order(row), row))

    def _order(self, row: int) -> tuple[int, Bucket]:
        bucket = self._bucket(row)
        return -bucket.width * bucket.height, bucket

    def _bucket(self, row: int) -> Bucket:
        return self._work.views.bucket(*self._work.views.shown(row))

    def _know(self, place: int, rows: range) -> bool:
        """Finds the keys of a picture whose files are known; False if they have to be read."""
        paths = self.part.files(self._work.views.items[place]) if rows else ()
        found = [self._work.memory.digest(path) for path in paths]
        digests = [digest for digest in found if digest is not None]
        if len(digests) < len(found):
            return False
        for row, key in zip(rows, self._keys_of(rows, digests), strict=True):
            self._keep(row, key)
        return True

    def _absent(self, rows: list[int]) -> list[int]:
        """Those of some rows, whose keys are known, that lack an entry."""
        for size in self._accepted if rows else ():
            keys = [_sized(self.keys[row].tobytes(), size) for row in rows]
            missing = self._work.store.places(self.part.kind, keys).missing
            absent = [rows[place] for place in missing]
            self._sizes[list(set(rows).difference(absent))] = size
            rows = absent
        return rows

    def _keys_of(self, rows: range, digests: Sequence[str]) -> tuple[bytes, ...]:
        """The keys of views of one picture. digests: of its files."""
        work = self._work
        keys = []
        for place, number in map(work.views.shown, rows):
            view = work.views.view(place, number)
            keys.append(self.part.key(work.views.items[place], view, digests, work.encoder))
        return tuple(keys)

    def _keep(self, row: int, key: bytes) -> None:
        self.keys[row] = np.frombuffer(key, np.uint8)

    def _make(self, rows: Sequence[int]) -> None:
        """Makes the entries of rows, in their order, and waits until all are written."""
        with closing(Line[Failures](threads=1, most=_WRITTEN_BEHIND)) as writer:
            self._encode(rows, writer)
            self._take(writer.rest())

    def _encode(self, rows: Sequence[int], writer: Line[Failures]) -> None:
        """Encodes rows, those of one size together, and gives them to be written."""
        full = self._work.vae if self.part.is_encoded else None
        most = self._work.threads + self._work.vae.size
        pending: list[_Made] = []
        with closing(ahead(self._read, rows, threads=self._work.threads, most=most)) as made:
            for one in made:
                self._work.ask()
                if pending and self._bucket(one.row) != self._bucket(pending[0].row):
                    pending = self._give(pending, writer)
                if self._is_needed(one):
                    pending.append(one)
                if len(pending) >= (full.size if full else 1):
                    pending = self._give(pending, writer)
                self._work.tick()
        self._give(pending, writer)

    def _read(self, row: int) -> _Made:
        """What a row's files hold, decoded unless there is an entry already; in any thread."""
        work, part = self._work, self.part
        place, number = work.views.shown(row)
        item = work.views.items[place]
        if place in work.failed:
            return _Made(row)
        paths = part.files(item)
        try:
            found = {path: content(item, path, work.memory.read) for path in paths}
            rows = range(row, row + 1) if work.keeps else work.views.rows_of(place)
            keys = self._keys_of(rows, [found[path][1] for path in paths])
            is_looked_up = self.keys[row].tobytes() == keys[0]
            if work.keeps and not is_looked_up and (size := self._found(keys[0])):
                return _Made(row, keys, size)
            files = [io.BytesIO(found[path][0]) for path in paths]
            tensor = part.decode(item, work.views.view(place, number), files)
            return _Made(row, keys, tensor=tensor if work.keeps else None)
        except ImageError as error:
            return _Made(row, failure=error.reason)

    def _found(self, key: bytes) -> int:
        """The size of the batch that there is an entry of; 0 if there is none."""
        has = partial(self._work.store.has, self.part.kind)
        return next((size for size in self._accepted if has(_sized(key, size))), 0)

    def _is_needed(self, made: _Made) -> bool:
        """Whether there is something to encode or to write; if not, all is noted."""
        if made.failure:
            self._work.fail(made.row, made.failure)
            return False
        for row, key in enumerate(made.keys, made.row):
            self._keep(row, key)
        if made.keys and self._work.keeps:
            # Of two files that are the same the second one finds what the first one has left.
            self._sizes[made.row] = made.size or self._new.get(made.keys[0], 0)
        return made.tensor is not None and not self._sizes[made.row]

    def _give(self, pending: Sequence[_Made], writer: Line[Failures]) -> list[_Made]:
        """Encodes what is pending and lets it be written; gives what is pending then."""
        tensors = [one.tensor for one in pending if one.tensor is not None]
        begin = 0
        for size, made in self._encoded(tensors):
            some = pending[begin : begin + len(next(iter(made.values())))]
            begin += len(some)
            for one in some:
                self._sizes[one.row] = self._new[one.keys[0]] = size
            writer.give(partial(self._write, some, size, made))
            self._take(writer.due())
        return []

    def _encoded(self, tensors: Sequence[Tensor]) -> Iterator[tuple[int, Mapping[str, Tensor]]]:
        """What is to be written of them, (B, ...) each, with the size of its batch."""
        if not self.part.is_encoded:
            for tensor in tensors:
                yield 1, {self.part.name: tensor[None]}
            return
        for size, moments in self._work.vae.encode(tensors):
            is_image = self.part.name == LATENTS
            yield size, {"mean": moments.mean} | ({"std": moments.std} if is_image else {})

    def _write(self, made: Sequence[_Made], size: int, tensors: Mapping[str, Tensor]) -> Failures:
        """Keeps entries, each of which is whole on disk then or not there."""
        here = {name: tensor.to("cpu") for name, tensor in tensors.items()}
        failures: Failures = []
        for place, one in enumerate(made):
            own = {name: tensor[place] for name, tensor in here.items()}
            if all(bool(tensor.isfinite().all()) for tensor in own.values()):
                self._work.store.put(self.part.kind, _sized(one.keys[0], size), own)
            else:
                failures.append((one.row, NOT_A_NUMBER))
        return failures

    def _take(self, results: Iterator[Failures]) -> None:
        for row, reason in (failure for failures in results for failure in failures):
            self._work.fail(row, reason)
            self._lost[self.keys[row].tobytes()] = reason


def _halves(size: int) -> tuple[int, ...]:
    """The sizes that lack of memory makes of one, the largest first."""
    return (size, *_halves(size // 2)) if size > 1 else (1,)


def _sized(key: bytes, size: int) -> bytes:
    """The key of what was encoded in a batch of some size."""
    return key if size == 1 else entry_key(key.hex(), size)
