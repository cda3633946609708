"""Encoded images and captions, read from the cache while training."""

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from modules.data.cache_entries import INPUT_MASK, LATENTS, MASK, MASKED_IMAGE, EntryType, content
from modules.data.shards import DamagedEntry, EntryLocations, Store
from modules.interfaces import Conditioning, LatentMoments
from modules.memory.to_device import to_device
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.items import Item, Skipped
from onetrainer.dataset.transforms import (
    ImageTransform,
    bucket_at,
    image_transform,
    plain_transform,
    size_conditioning,
    transform_count,
)
from onetrainer.errors import EndsRun, UserError
from onetrainer.images.image_file import ImageError

TransformKey = tuple[int, int]
"""An image's index and the number of its transform."""
_REMEMBERED = 4096
"""Images and captions of which is remembered what each step asks for: some KB each."""


class TransformTable:
    """All transforms of some images, in numbered rows.

    is_plain: only the one without random choices. Rows instead of Python objects: 100,000 images
    with four transforms each take no more memory than their keys.
    """

    def __init__(
        self, items: Sequence[Item], concepts: Sequence[ConceptSettings], *, is_plain: bool
    ) -> None:
        self.items = tuple(items)
        self.concepts = tuple(concepts)
        self.is_plain = is_plain
        per_concept = [1 if is_plain else transform_count(concept) for concept in concepts]
        counts = [per_concept[item.concept] for item in self.items]
        self.starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self._time_ids = lru_cache(_REMEMBERED)(self._find_time_ids)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.starts[-1])

    def of_images(self, indices: Sequence[int]) -> "TransformTable":
        """Return the transforms of some images."""
        items = [self.items[index] for index in indices]
        return TransformTable(items, self.concepts, is_plain=self.is_plain)

    def rows_of(self, index: int) -> range:
        """Return the rows of an image's transforms."""
        return range(int(self.starts[index]), int(self.starts[index + 1]))

    def locate(self, row: int) -> TransformKey:
        """Return the image and the number of a row's transform."""
        index = int(np.searchsorted(self.starts, row, side="right")) - 1
        return index, row - int(self.starts[index])

    def concept(self, index: int) -> ConceptSettings:
        """Return an image's concept."""
        return self.concepts[self.items[index].concept]

    def transform(self, index: int, number: int) -> ImageTransform:
        """Return a transform of an image, also one without a row."""
        item, concept = self.items[index], self.concept(index)
        return (
            plain_transform(item, concept)
            if self.is_plain
            else image_transform(item, concept, number)
        )

    def bucket(self, index: int, number: int) -> Bucket:
        """Return the bucket of a transform, without its random choices."""
        return bucket_at(self.items[index], self.concept(index), number)

    def time_ids(self, keys: Sequence[TransformKey]) -> Tensor:
        """Return the size conditioning of transformed images, (B, 6), float32."""
        return torch.cat([self._time_ids(key) for key in keys])

    def _find_time_ids(self, key: TransformKey) -> Tensor:
        return torch.tensor([size_conditioning(self.items[key[0]], self.transform(*key))])


class EntryLost(EndsRun):
    """A cache entry was removed or damaged during a run; restarting encodes it again."""

    failure = "cache"


@dataclass(frozen=True)
class EncodedEntries:
    """The images' entries of one type.

    keys: of each row of the transforms; zeros where there is no entry. contents: digests of each
    image's files. locations: of each row's entry; None if all is encoded whenever it is used.
    """

    entry_type: EntryType
    keys: Sequence[bytes]
    contents: Sequence[bytes]
    locations: EntryLocations | None


@dataclass(frozen=True)
class EncodedImages:
    """Images whose encodings can be read, by their index and the number of the transform.

    transforms: of the images that could be encoded. usable: their indices among all. skipped: those
    that could not. warnings: other problems. entries: by the names of their types. blanks: latents
    of empty images, the input of models that see masked ones where all is masked, (1, 4, h, w);
    empty if it always is. encode: the VAE. new: the number of images of which something was
    encoded now.
    """

    transforms: TransformTable
    usable: tuple[int, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    entries: Mapping[str, EncodedEntries]
    store: Store
    blanks: Mapping[Bucket, Tensor]
    encode: Callable[[Tensor], LatentMoments]
    new: int = 0
    _remembered: dict[tuple[str, TransformKey], Mapping[str, Tensor]] = field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def items(self) -> tuple[Item, ...]:
        """The images."""
        return self.transforms.items

    @property
    def is_cached(self) -> bool:
        """Whether the VAE is no longer needed."""
        return self.entries[LATENTS].locations is not None

    def moments(self, index: int, number: int) -> LatentMoments:
        """Return the VAE's posterior of a transformed image: (1, 4, h, w) each, float32.

        On the CPU if it is cached, otherwise on the VAE's device.
        """
        if not self.is_cached:
            return self.encode(self.pixels(index, number))
        return self.gather([(index, number)])

    def gather(self, keys: Sequence[TransformKey]) -> LatentMoments:
        """Copy several cached moments of one size: (B, 4, h, w) each, on the CPU."""
        entries = [self._entry(LATENTS, key) for key in keys]
        mean, std = (torch.cat([each[name] for each in entries]) for name in ("mean", "std"))
        return LatentMoments(mean, std)

    def mask(self, index: int, number: int) -> Tensor | None:
        """Return a training mask, (1, 1, h, w), float32 in [0, 1]; None without one."""
        return self._one(MASK, MASK, index, number)

    def masked_image(self, index: int, number: int) -> Tensor | None:
        """Return the input of `masked_input`, without using the VAE; None if all is masked.

        (1, 4, h, w) if it is cached, otherwise the image to be encoded for it, (1, 3, 8h, 8w).
        """
        return self._one(MASKED_IMAGE, "mean", index, number)

    def masked_input(self, index: int, number: int, mean: Tensor | None) -> Tensor:
        """Return the input mask and the latents of the masked image, (1, 5, h, w).

        mean: those latents, (1, 4, h, w); None if all is masked.
        """
        if mean is None:
            mean = self.blanks[self.transforms.bucket(index, number)]
            return torch.cat([torch.ones_like(mean[:, :1]), mean], dim=1)
        mask = self._one(INPUT_MASK, INPUT_MASK, index, number)
        mask = torch.ones_like(mean[:, :1]) if mask is None else to_device(mask, mean.device)
        return torch.cat([mask, mean], dim=1)

    def pixels(self, index: int, number: int) -> Tensor:
        """Read and transform an image for the VAE: (1, 3, 8h, 8w), float32 in [-1, 1]."""
        return self._decoded(LATENTS, index, number)

    def digest_lines(self) -> Iterator[str]:
        """Yield the digest of each image's encodings, whether they are cached or not."""
        for index in range(len(self.items)):
            rows = self.transforms.rows_of(index)
            keys = (each.keys[row] for each in self.entries.values() for row in rows)
            yield hashlib.sha256(b"".join(keys)).hexdigest()

    def file_digests(self) -> Iterator[str]:
        """Yield the digest of each image's files, with its mask and the like: whatever is made of
        them.
        """
        for index in range(len(self.items)):
            contents = (each.contents[index] for each in self.entries.values())
            yield hashlib.sha256(b"".join(contents)).hexdigest()

    def identity_lines(self) -> Iterator[str]:
        """Yield the digest of each image's files and transforms, independent of the VAE.

        Equal on every device, and in every precision.
        """
        for index in range(len(self.items)):
            contents = (each.contents[index] for each in self.entries.values())
            digest = hashlib.sha256(b"".join(contents))
            for row in self.transforms.rows_of(index):
                _, number = self.transforms.locate(row)
                digest.update(repr(self.transforms.transform(index, number).key()).encode())
            yield digest.hexdigest()

    def _one(self, name: str, tensor: str, index: int, number: int) -> Tensor | None:
        """Return a cached tensor, or what the VAE would encode for it; None without an entry."""
        entries = self.entries.get(name)
        if entries is None or not entries.entry_type.files(self.items[index]):
            return None
        if self.is_cached:
            return self._entry(name, (index, number))[tensor]
        return self._decoded(name, index, number)

    def _entry(self, name: str, key: TransformKey) -> Mapping[str, Tensor]:
        """Return the tensors of an image's cached entry, (1, ...) each; they lie in its file."""
        self.store.renew_lease()  # also for what is not read again
        known = self._remembered.get((name, key))
        if known is None:
            known = self._read(name, key)
            if len(self._remembered) < _REMEMBERED:
                self._remembered[name, key] = known
        return known

    def _read(self, name: str, key: TransformKey) -> Mapping[str, Tensor]:
        locations, (index, number) = self.entries[name].locations, key
        assert locations is not None, "they are cached"
        try:
            tensors = self.store.read(locations, self.transforms.rows_of(index)[number])
        except DamagedEntry as error:
            _raise_lost(self.store, error)
        return {name: tensor[None] for name, tensor in tensors.items()}

    def _decoded(self, name: str, index: int, number: int) -> Tensor:
        item, entry_type = self.items[index], self.entries[name].entry_type
        try:
            paths = entry_type.files(item)
            files = [io.BytesIO(content(item, path, Path.read_bytes)) for path in paths]
            return entry_type.decode(item, self.transforms.transform(index, number), *files)[None]
        except ImageError as error:
            raise UserError(
                f"{error.path}: {error.reason}",
                "Images must not be changed while a run uses them",
                "Restore it, or start again without it",
            ) from error


@dataclass(frozen=True)
class EncodedTexts:
    """Captions whose encodings can be read. rows: of each caption, including the empty one."""

    rows: Mapping[str, int]
    store: Store
    locations: EntryLocations
    _remembered: dict[str, Conditioning] = field(default_factory=dict, init=False, repr=False)

    def conditioning(self, caption: str) -> Conditioning:
        """Return a caption's conditioning: (1, T, D) and (1, P), on the CPU.

        It lies in the cache's file, so that what is remembered takes no memory for its numbers.
        """
        self.store.renew_lease()  # also for what is not read again
        known = self._remembered.get(caption)
        if known is None:
            known = self._read(caption)
            if len(self._remembered) < _REMEMBERED:
                self._remembered[caption] = known
        return known

    def _read(self, caption: str) -> Conditioning:
        try:
            tensors = self.store.read(self.locations, self.rows[caption])
        except DamagedEntry as error:
            _raise_lost(self.store, error)
        pooled = tensors.get("pooled")
        return Conditioning(tensors["hidden"][None], None if pooled is None else pooled[None])


def _raise_lost(store: Store, error: DamagedEntry) -> NoReturn:
    raise EntryLost(
        f"{store.folder}: an encoded image or caption was removed or damaged",
        "The cache must not be changed while a run uses it",
        "Start again to encode what is missing",
    ) from error
