"""Encoding of missing cache entries: threads decode, the VAE encodes, a thread writes."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from modules.data.cache_entries import LATENTS, EntryType, content
from modules.data.encoded_items import KEY_BYTES, Keys, TransformTable
from modules.data.prefetch import WorkQueue, prefetch
from modules.data.shards import EntryLocations, Store, entry_key
from modules.data.vae_batches import VaeBatches
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.items import Skipped
from onetrainer.images.image_file import ImageError
from onetrainer.images.image_index import ImageIndex

_LOOKUP_BATCH = 1024
"""Images that are looked up in the cache at once."""

LOST = "its cache entry disappeared after it was encoded"
NOT_A_NUMBER = "the VAE's result is not a number; another precision than fp16 may help"

Failures = list[tuple[int, str]]
"""Rows of unusable images, with the reasons."""

_MAX_UNWRITTEN = 2
"""Encoded batches that may wait to be written; they are lost if the process is killed."""


@dataclass(frozen=True)
class EncodingJob:
    """What the encoding of all entry types of some images has in common.

    encoder: identifies the VAE. threads: that decode. caches: whether entries are stored; otherwise
    images are only checked. check_stop: raises CachingStopped on request. advance: called whenever
    a row is done. failed: the unusable images, by index.
    """

    transforms: TransformTable
    store: Store
    file_digests: ImageIndex
    vae: VaeBatches
    encoder: str
    threads: int
    caches: bool
    check_stop: Callable[[], None]
    advance: Callable[[], None]
    failed: dict[int, Skipped] = field(default_factory=dict)

    def fail(self, row: int, reason: str) -> None:
        """Mark a row's image as unusable."""
        index, _ = self.transforms.locate(row)
        self.failed.setdefault(index, Skipped(self.transforms.items[index].path, reason))


@dataclass(frozen=True)
class _ReadRow:
    """The result of reading a row in a thread.

    keys: of this and the following rows. size: of the batch that an existing entry was encoded in;
    0 without an entry. tensor: what is to be encoded or written; None for nothing. failure: why the
    image is unusable; "" if it is usable.
    """

    row: int
    keys: tuple[bytes, ...] = ()
    size: int = 0
    tensor: Tensor | None = None
    failure: str = ""


class MissingEntries:
    """The keys of all images' entries of one type, and the encoding of missing ones.

    The batch size that an entry was encoded in is part of its key, as it affects rounding. Entries
    of the smaller batch sizes that a lack of memory leads to are accepted, too.
    """

    def __init__(self, job: EncodingJob, entry_type: EntryType) -> None:
        self.entry_type = entry_type
        self.keys: Keys = np.zeros((job.transforms.rows, KEY_BYTES), np.uint8)
        self.contents: Keys = np.zeros((len(job.transforms.items), KEY_BYTES), np.uint8)
        """A digest of each image's files, independent of the VAE."""
        self._job = job
        self._sizes: NDArray[np.uint8] = np.zeros(job.transforms.rows, np.uint8)
        self._accepted = _halves(job.vae.size) if entry_type.is_encoded else (1,)
        self._new: dict[bytes, int] = {}
        self._lost: dict[bytes, str] = {}

    @property
    def total(self) -> int:
        """Number of rows to process."""
        return sum(len(self._rows(index)) for index in range(len(self._job.transforms.items)))

    def new_images(self) -> set[int]:
        """Return the images of which something was encoded now."""
        rows = range(self._job.transforms.rows if self._new else 0)
        new = [row for row in rows if self.keys[row].tobytes() in self._new]
        return {self._job.transforms.locate(row)[0] for row in new}

    def encode(self) -> None:
        """Encode what is missing. Raises CachingStopped, and UserError if it cannot be written."""
        if self._job.caches:
            self._encode_rows(self._missing_rows())
            return
        indices = range(len(self._job.transforms.items))
        self._encode_rows([rows[0] for index in indices if (rows := self._rows(index))])

    def locations(self) -> EntryLocations:
        """Return the location of each row's entry, encoding lost ones again, once.

        Merging may have found an entry damaged, and another program may have removed it. Images
        whose entry is lost even then become unusable.
        """
        for is_last in (False, True):
            keys = [
                _sized(key.tobytes(), int(size)) if size else b""
                for key, size in zip(self.keys, self._sizes, strict=True)
            ]
            locations = self._job.store.locate(self.entry_type.kind, keys)
            lost = {row: self.keys[row].tobytes() for row in locations.missing if self._sizes[row]}
            again = [row for row, key in lost.items() if key not in self._lost]
            if is_last or not again:
                break
            for row in again:
                self._new.pop(lost[row], None)
            self._encode_rows(self._ordered(again))
        for row, key in lost.items():
            # Also if another file of the same image was encoded in its place.
            self._job.fail(row, self._lost.get(key, LOST))
        return locations

    def _rows(self, index: int) -> range:
        """Return the rows of an image to process."""
        transforms = self._job.transforms
        if index in self._job.failed or not self.entry_type.files(transforms.items[index]):
            return range(0)
        rows = transforms.rows_of(index)
        return rows if self._job.caches else rows[:1]

    def _missing_rows(self) -> list[int]:
        """Return the rows without an entry, grouped by size, large ones first.

        So a lack of memory shows at once.
        """
        missing: list[int] = []
        count = len(self._job.transforms.items)
        for begin in range(0, count, _LOOKUP_BATCH):
            self._job.check_stop()
            known: list[int] = []
            for index in range(begin, min(begin + _LOOKUP_BATCH, count)):
                rows = self._rows(index)
                (known if self._set_known_keys(index, rows) else missing).extend(rows)
            absent = self._absent(known)
            missing += absent
            for _ in range(len(known) - len(absent)):
                self._job.advance()
        return self._ordered(missing)

    def _ordered(self, rows: Sequence[int]) -> list[int]:
        def order(row: int) -> tuple[int, Bucket, int]:
            bucket = self._bucket(row)
            return -bucket.width * bucket.height, bucket, row

        return sorted(rows, key=order)

    def _bucket(self, row: int) -> Bucket:
        return self._job.transforms.bucket(*self._job.transforms.locate(row))

    def _set_known_keys(self, index: int, rows: range) -> bool:
        """Set the keys of an image's rows; False if its files must be read for that."""
        paths = self.entry_type.files(self._job.transforms.items[index]) if rows else ()
        remembered = [self._job.file_digests.digest(path) for path in paths]
        digests = [digest for digest in remembered if digest is not None]
        if len(digests) < len(remembered):
            return False
        self._set_keys(rows, self._keys_of(rows, digests))
        return True

    def _absent(self, rows: list[int]) -> list[int]:
        """Return the rows, of some with known keys, that have no entry."""
        for size in self._accepted if rows else ():
            keys = [_sized(self.keys[row].tobytes(), size) for row in rows]
            missing = self._job.store.locate(self.entry_type.kind, keys).missing
            absent = [rows[index] for index in missing]
            self._sizes[list(set(rows).difference(absent))] = size
            rows = absent
        return rows

    def _keys_of(self, rows: range, digests: Sequence[str]) -> tuple[bytes, ...]:
        """Return the keys of rows of one image. digests: of its files."""
        job, transforms = self._job, self._job.transforms
        keys = []
        for index, number in map(transforms.locate, rows):
            self.contents[index] = np.frombuffer(entry_key(*digests), np.uint8)
            transform = transforms.transform(index, number)
            item = transforms.items[index]
            keys.append(self.entry_type.key(item, transform, digests, job.encoder))
        return tuple(keys)

    def _set_keys(self, rows: range, keys: Sequence[bytes]) -> None:
        for row, key in zip(rows, keys, strict=True):
            self.keys[row] = np.frombuffer(key, np.uint8)

    def _encode_rows(self, rows: Sequence[int]) -> None:
        """Create the entries of rows, in their order, and wait until all are written."""
        with closing(WorkQueue[Failures](threads=1, most=_MAX_UNWRITTEN)) as writer:
            self._encode_batches(rows, writer)
            self._record_failures(writer.remaining())

    def _encode_batches(self, rows: Sequence[int], writer: WorkQueue[Failures]) -> None:
        """Encode rows in batches of one size, and submit them for writing."""
        vae = self._job.vae
        most = self._job.threads + vae.size
        pending: list[_ReadRow] = []
        with closing(prefetch(self._read, rows, threads=self._job.threads, most=most)) as results:
            for result in results:
                self._job.check_stop()
                if pending and self._bucket(result.row) != self._bucket(pending[0].row):
                    pending = self._submit(pending, writer)
                if self._is_needed(result):
                    pending.append(result)
                if len(pending) >= (vae.size if self.entry_type.is_encoded else 1):
                    pending = self._submit(pending, writer)
                self._job.advance()
        self._submit(pending, writer)

    def _read(self, row: int) -> _ReadRow:
        """Read a row's files in any thread, and decode them unless there is an entry already."""
        job, entry_type = self._job, self.entry_type
        index, number = job.transforms.locate(row)
        item = job.transforms.items[index]
        if index in job.failed:
            return _ReadRow(row)
        paths = entry_type.files(item)
        try:
            contents = {path: content(item, path, job.file_digests.read) for path in paths}
            rows = range(row, row + 1) if job.caches else job.transforms.rows_of(index)
            keys = self._keys_of(rows, [contents[path][1] for path in paths])
            is_looked_up = self.keys[row].tobytes() == keys[0]
            if job.caches and not is_looked_up:
                has = partial(job.store.has, entry_type.kind)
                size = next((size for size in self._accepted if has(_sized(keys[0], size))), 0)
                if size:
                    return _ReadRow(row, keys, size)
            files = [io.BytesIO(contents[path][0]) for path in paths]
            tensor = entry_type.decode(item, job.transforms.transform(index, number), *files)
            return _ReadRow(row, keys, tensor=tensor if job.caches else None)
        except ImageError as error:
            return _ReadRow(row, failure=error.reason)

    def _is_needed(self, result: _ReadRow) -> bool:
        """Record the keys of a row, and return whether it must be encoded or written."""
        if result.failure:
            self._job.fail(result.row, result.failure)
            return False
        self._set_keys(range(result.row, result.row + len(result.keys)), result.keys)
        if result.keys and self._job.caches:
            # The second of two equal files uses the entry of the first.
            self._sizes[result.row] = result.size or self._new.get(result.keys[0], 0)
        return result.tensor is not None and not self._sizes[result.row]

    def _submit(self, pending: Sequence[_ReadRow], writer: WorkQueue[Failures]) -> list[_ReadRow]:
        """Encode the pending rows and submit them for writing; return the new, empty list."""
        tensors = [each.tensor for each in pending if each.tensor is not None]
        begin = 0
        for size, encoded in self._encoded(tensors):
            batch = pending[begin : begin + len(next(iter(encoded.values())))]
            begin += len(batch)
            for each in batch:
                self._sizes[each.row] = self._new[each.keys[0]] = size
            writer.submit(partial(self._write, batch, size, encoded))
            self._record_failures(writer.excess())
        return []

    def _encoded(self, tensors: Sequence[Tensor]) -> Iterator[tuple[int, Mapping[str, Tensor]]]:
        """Encode tensors, and yield those to write, (B, ...) each, with their batch's size."""
        if not self.entry_type.is_encoded:
            for tensor in tensors:
                yield 1, {self.entry_type.name: tensor[None]}
            return
        for size, moments in self._job.vae.encode(tensors):
            is_image = self.entry_type.name == LATENTS
            yield size, {"mean": moments.mean} | ({"std": moments.std} if is_image else {})

    def _write(
        self, batch: Sequence[_ReadRow], size: int, tensors: Mapping[str, Tensor]
    ) -> Failures:
        """Write entries, each of them atomically; return what is not finite."""
        on_cpu = {name: tensor.to("cpu") for name, tensor in tensors.items()}
        failures: Failures = []
        for index, each in enumerate(batch):
            entry = {name: tensor[index] for name, tensor in on_cpu.items()}
            if all(bool(tensor.isfinite().all()) for tensor in entry.values()):
                self._job.store.put(self.entry_type.kind, _sized(each.keys[0], size), entry)
            else:
                failures.append((each.row, NOT_A_NUMBER))
        return failures

    def _record_failures(self, results: Iterator[Failures]) -> None:
        for row, reason in (failure for failures in results for failure in failures):
            self._job.fail(row, reason)
            self._lost[self.keys[row].tobytes()] = reason


def _halves(size: int) -> tuple[int, ...]:
    """Return the batch sizes that a lack of memory may lead to, the largest first."""
    return (size, *_halves(size // 2)) if size > 1 else (1,)


def _sized(key: bytes, size: int) -> bytes:
    """Return the key of an entry that was encoded in a batch of some size."""
    return key if size == 1 else entry_key(key.hex(), size)
