"""Encoding of missing cache entries: threads decode, the VAE encodes, a thread writes."""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from torch import Tensor

from modules.data.cache_entries import LATENTS, EntryType, content
from modules.data.encoded_items import EncodedEntries, TransformTable
from modules.data.shards import EntryLocations, Store, entry_key
from modules.data.vae_batches import VaeBatches
from modules.world.world import World, alone
from onetrainer.cache.format import KEY_BYTES
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.items import Skipped
from onetrainer.dataset.prefetch import WorkQueue, prefetch
from onetrainer.images.image_file import ImageError
from onetrainer.images.image_index import ImageIndex

_LOOKUP_BATCH = 1024
"""Images that are looked up in the cache at once."""

LOST = "its cache entry disappeared after it was encoded"
NOT_A_NUMBER = (
    "the VAE's result is not a number; in fp16, use a VAE that is made for it, or another"
    " precision; otherwise the VAE's file is damaged"
)

Failures = list[tuple[int, str]]
"""Rows of unusable images, with the reasons."""

_MAX_UNWRITTEN = 2
"""Encoded batches that may wait to be written; they are lost if the process is killed."""


@dataclass(frozen=True)
class EncodingJob:
    """What the encoding of all entry types of some images has in common.

    encoder: identifies the VAE. threads: that decode. caches: whether entries are stored; otherwise
    images are only checked. check_stop: raises CachingStopped on request. require_sound: called
    for a result that is not a number; raises UserError if the VAE's weights are not. advance:
    called whenever a row is done. world: shares the rows out. failed: the unusable images, by
    index.
    """

    transforms: TransformTable
    store: Store
    file_digests: ImageIndex
    vae: VaeBatches
    encoder: str
    threads: int
    caches: bool
    check_stop: Callable[[], None]
    require_sound: Callable[[], None]
    advance: Callable[[], None]
    world: World = field(default_factory=alone)
    failed: dict[int, Skipped] = field(default_factory=dict)

    def fail(self, row: int, reason: str) -> None:
        """Mark a row's image as unusable."""
        index, _ = self.transforms.locate(row)
        self.failed.setdefault(index, Skipped(self.transforms.items[index].path, reason))


@dataclass(frozen=True)
class _ReadRow:
    """The result of reading a row in a thread.

    size: of the batch that an existing entry was encoded in; 0 without an entry. tensor: what is to
    be encoded or written; None for nothing. failure: why the image is unusable; "" if it is usable.
    """

    row: int
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
        self.keys = [bytes(KEY_BYTES)] * job.transforms.rows
        self.contents = [bytes(KEY_BYTES)] * len(job.transforms.items)
        """A digest of each image's files, independent of the VAE."""
        self._job = job
        self._locations: EntryLocations | None = None
        self._sizes = bytearray(job.transforms.rows)
        self._accepted = _halves(job.vae.size) if entry_type.is_encoded else (1,)
        self._new: dict[bytes, int] = {}
        self._lost: dict[bytes, str] = {}

    @property
    def total(self) -> int:
        """Number of rows to process."""
        return sum(len(self._rows(index)) for index in range(len(self._job.transforms.items)))

    def new_images(self) -> set[int]:
        """Return the images of which something was encoded now."""
        new = (row for row, key in enumerate(self.keys) if key in self._new)
        return {self._job.transforms.locate(row)[0] for row in new}

    def encode(self) -> None:
        """Encode what is missing. Raises CachingStopped, and UserError if it cannot be written."""
        indices = range(len(self._job.transforms.items))
        every = [row for index in indices for row in self._rows(index)]
        if self._job.caches and not self._job.world.is_alone:
            self._encode_part()
        self._encode_rows(self._missing_rows() if self._job.caches else every)

    def _encode_part(self) -> None:
        """Encode this process's part of what is missing, while the others encode theirs.

        Then nothing is missing but unusable images, unless this computer has a cache of its own.
        """
        world, size = self._job.world, self._job.vae.size
        missing = self._missing_rows()
        self._encode_rows(
            row for place, row in enumerate(missing) if place // size % world.size == world.rank
        )
        self._job.file_digests.save()  # for the others, who then need not read the files
        world.wait_for_all()

    def locate(self) -> None:
        """Locate each row's entry, encoding lost ones again, once.

        Merging may have found an entry damaged, and another program may have removed it. Images
        whose entry is lost even then become unusable.
        """
        self._locations, lost = self._located()
        if again := [row for row in lost if self.keys[row] not in self._lost]:
            for row in again:
                self._new.pop(self.keys[row], None)
            self._encode_rows(self._ordered(again))
            self._locations, lost = self._located()
        for row in lost:
            # Also if another file of the same image was encoded in its place.
            self._job.fail(row, self._lost.get(self.keys[row], LOST))

    def of_images(self, indices: Sequence[int]) -> EncodedEntries:
        """Return the entries of some images."""
        rows = [row for index in indices for row in self._job.transforms.rows_of(index)]
        locations = self._locations
        if locations is not None:
            shard, at = (numbers[rows] for numbers in (locations.shard, locations.row))
            locations = EntryLocations(locations.kind, shard, at)
        keys = [self.keys[row] for row in rows]
        contents = [self.contents[index] for index in indices]
        return EncodedEntries(self.entry_type, keys, contents, locations)

    def _located(self) -> tuple[EntryLocations, list[int]]:
        """Return the location of each row's entry, and the rows whose entry is lost."""
        sized = zip(self.keys, self._sizes, strict=True)
        keys = [_sized(key, size) if size else b"" for key, size in sized]
        locations = self._job.store.locate(self.entry_type.kind, keys)
        return locations, [row for row in locations.missing if self._sizes[row]]

    def _rows(self, index: int) -> range:
        """Return the rows of an image to process."""
        transforms = self._job.transforms
        if index in self._job.failed or not self.entry_type.files(transforms.items[index]):
            return range(0)
        rows = transforms.rows_of(index)
        return rows if self._job.caches else rows[:1]

    def _missing_rows(self) -> list[int]:
        """Return the rows without an entry, ordered.

        That includes the rows of images whose files must be read for their keys.
        """
        missing: list[int] = []
        items = self._job.transforms.items
        for begin in range(0, len(items), _LOOKUP_BATCH):
            self._job.check_stop()
            known: list[int] = []
            for index in range(begin, min(begin + _LOOKUP_BATCH, len(items))):
                rows = self._rows(index)
                paths = self.entry_type.files(items[index]) if rows else ()
                digests = list(filter(None, map(self._job.file_digests.digest, paths)))
                if len(digests) < len(paths):
                    missing += rows
                else:
                    self._set_keys(rows, digests)
                    known += rows
            absent = self._absent(known)
            missing += absent
            for _ in range(len(known) - len(absent)):
                self._job.advance()
        return self._ordered(missing)

    def _ordered(self, rows: Iterable[int]) -> list[int]:
        """Group rows by size, large ones first: so a lack of memory shows at once."""

        def order(row: int) -> tuple[int, Bucket, int]:
            bucket = self._bucket(row)
            return -bucket.width * bucket.height, bucket, row

        return sorted(rows, key=order)

    def _bucket(self, row: int) -> Bucket:
        return self._job.transforms.bucket(*self._job.transforms.locate(row))

    def _absent(self, rows: list[int]) -> list[int]:
        """Return the rows, of some with known keys, that have no entry."""
        for size in self._accepted if rows else ():
            keys = [_sized(self.keys[row], size) for row in rows]
            missing = self._job.store.locate(self.entry_type.kind, keys).missing
            absent = [rows[index] for index in missing]
            for row in set(rows).difference(absent):
                self._sizes[row] = size
            rows = absent
        return rows

    def _set_keys(self, rows: range, digests: Sequence[str]) -> None:
        """Compute and store the cache keys of an image's rows, from its files' digests."""
        transforms = self._job.transforms
        for row in rows:
            index, number = transforms.locate(row)
            self.contents[index] = entry_key(*digests)
            item, transform = transforms.items[index], transforms.transform(index, number)
            self.keys[row] = self.entry_type.key(item, transform, digests, self._job.encoder)

    def _encode_rows(self, rows: Iterable[int]) -> None:
        """Create the entries of rows in batches of one size, and wait until all are written."""
        vae, threads = self._job.vae, self._job.threads
        pending: list[_ReadRow] = []
        with (
            closing(WorkQueue[Failures](threads=1, most=_MAX_UNWRITTEN)) as writer,
            closing(prefetch(self._read, rows, threads=threads, most=threads + vae.size)) as read,
        ):
            for result in read:
                self._job.check_stop()
                if pending and self._bucket(result.row) != self._bucket(pending[0].row):
                    self._submit(pending, writer)
                if self._is_needed(result):
                    pending.append(result)
                if len(pending) >= (vae.size if self.entry_type.is_encoded else 1):
                    self._submit(pending, writer)
                self._job.advance()
            self._submit(pending, writer)
            self._record_failures(writer.remaining())

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
            known = self.keys[row]
            rows = range(row, row + 1) if job.caches else job.transforms.rows_of(index)
            self._set_keys(rows, [contents[path][1] for path in paths])
            if job.caches and self.keys[row] != known:  # not looked up yet
                for size in self._accepted:
                    if job.store.has(entry_type.kind, _sized(self.keys[row], size)):
                        return _ReadRow(row, size)
            files = [io.BytesIO(contents[path][0]) for path in paths]
            tensor = entry_type.decode(item, job.transforms.transform(index, number), *files)
            return _ReadRow(row, tensor=tensor if job.caches else None)
        except ImageError as error:
            return _ReadRow(row, failure=error.reason)

    def _is_needed(self, result: _ReadRow) -> bool:
        """Return whether a row must be encoded or written."""
        if result.failure:
            self._job.fail(result.row, result.failure)
        elif self._job.caches:
            # The second of two equal files uses the entry of the first.
            self._sizes[result.row] = result.size or self._new.get(self.keys[result.row], 0)
        return result.tensor is not None and not self._sizes[result.row]

    def _submit(self, pending: list[_ReadRow], writer: WorkQueue[Failures]) -> None:
        """Encode the pending rows, submit them for writing, and clear them."""
        name = self.entry_type.name
        tensors = [each.tensor for each in pending if each.tensor is not None]
        encoded: Iterator[tuple[int, Mapping[str, Tensor]]]
        if self.entry_type.is_encoded:
            encoded = (
                (size, {"mean": each.mean} | ({"std": each.std} if name == LATENTS else {}))
                for size, each in self._job.vae.encode(tensors)
            )
        else:
            encoded = ((1, {name: tensor[None]}) for tensor in tensors)
        begin = 0
        for size, rows in encoded:
            batch = pending[begin : begin + len(next(iter(rows.values())))]
            begin += len(batch)
            for each in batch:
                self._sizes[each.row] = self._new[self.keys[each.row]] = size
            writer.submit(partial(self._write, batch, size, rows))
            self._record_failures(writer.excess())
        pending.clear()

    def _write(
        self, batch: Sequence[_ReadRow], size: int, tensors: Mapping[str, Tensor]
    ) -> Failures:
        """Write entries, each of them atomically; return what is not finite."""
        on_cpu = {name: tensor.to("cpu") for name, tensor in tensors.items()}
        failures: Failures = []
        for index, each in enumerate(batch):
            entry = {name: tensor[index] for name, tensor in on_cpu.items()}
            if all(bool(tensor.isfinite().all()) for tensor in entry.values()):
                key = _sized(self.keys[each.row], size)
                self._job.store.put(self.entry_type.kind, key, entry)
            else:
                failures.append((each.row, NOT_A_NUMBER))
        return failures

    def _record_failures(self, results: Iterator[Failures]) -> None:
        for row, reason in (failure for failures in results for failure in failures):
            self._job.require_sound()
            self._job.fail(row, reason)
            self._lost[self.keys[row]] = reason


def _halves(size: int) -> tuple[int, ...]:
    """Return the batch sizes that a lack of memory may lead to, the largest first."""
    return (size, *_halves(size // 2)) if size > 1 else (1,)


def _sized(key: bytes, size: int) -> bytes:
    """Return the key of an entry that was encoded in a batch of some size."""
    return key if size == 1 else entry_key(key.hex(), size)
