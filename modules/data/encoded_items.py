"""Encoded pictures and captions, read where they are kept while training."""

import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from modules.data.cache_entries import HOLE, LATENTS, MASK, SEEN, Part, content
from modules.data.shards import DamagedEntry, Places, Store
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
    transform_count,
)
from onetrainer.errors import UserError
from onetrainer.images.image_file import ImageError

KEY_BYTES = 32
Keys = NDArray[np.uint8]
"""A key in each row, (rows, 32)."""
Shown = tuple[int, int]
"""A picture's place and the number of its view."""


class Views:
    """All ways in which some pictures are shown, each in a row of its own.

    is_plain: only the one without anything drawn. A number in place of a Python object for each of
    them: 100,000 pictures in four variations are to take no more than their keys.
    """

    def __init__(
        self, items: Sequence[Item], concepts: Sequence[ConceptSettings], *, is_plain: bool
    ) -> None:
        self.items = tuple(items)
        self.concepts = tuple(concepts)
        self.is_plain = is_plain
        own = [1 if is_plain else transform_count(concept) for concept in concepts]
        counts = [own[item.concept] for item in self.items]
        self.starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self.starts[-1])

    def row(self, place: int, number: int) -> int:
        """Where a picture's view is."""
        return int(self.starts[place]) + number

    def rows_of(self, place: int) -> range:
        """Where a picture's views are."""
        return range(int(self.starts[place]), int(self.starts[place + 1]))

    def shown(self, row: int) -> Shown:
        """Which picture's view is in a row."""
        place = int(np.searchsorted(self.starts, row, side="right")) - 1
        return place, row - int(self.starts[place])

    def concept(self, place: int) -> ConceptSettings:
        """What counts for a picture."""
        return self.concepts[self.items[place].concept]

    def view(self, place: int, number: int) -> ImageTransform:
        """What is done to a picture; also where there is no row for it."""
        item, concept = self.items[place], self.concept(place)
        return (
            plain_transform(item, concept)
            if self.is_plain
            else image_transform(item, concept, number)
        )

    def bucket(self, place: int, number: int) -> Bucket:
        """The size of a view, without drawing it."""
        return bucket_at(self.items[place], self.concept(place), number)


class EntryLost(UserError):
    """Something encoded was removed or damaged under a run; whoever starts again makes it anew."""


@dataclass(frozen=True)
class EncodedImages:
    """Pictures that can be read encoded, by their place and the number of their view.

    views: of those that could be encoded. kept: their places among all. skipped: those that could
    not. warnings: what else happened. parts: by name. keys: what tells each row of a part from
    others, zeros where there is none of it. places: where these rows are kept; empty where nothing
    is, and all is made anew whenever it is asked for. blanks: what an inpainting model sees where
    all is to be painted, (1, 4, h, w); empty where it is always so. encode: the VAE. new: of how
    many of the pictures something was not there yet, and was encoded now.
    """

    views: Views
    kept: tuple[int, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    parts: Mapping[str, Part]
    keys: Mapping[str, Keys]
    store: Store
    places: Mapping[str, Places]
    blanks: Mapping[Bucket, Tensor]
    encode: Callable[[Tensor], LatentMoments]
    new: int = 0

    @property
    def items(self) -> tuple[Item, ...]:
        """The pictures."""
        return self.views.items

    @property
    def is_kept(self) -> bool:
        """Whether the VAE is no longer needed."""
        return LATENTS in self.places

    def moments(self, place: int, number: int) -> LatentMoments:
        """The VAE's posterior of a view: (1, 4, h, w) each, float32.

        On the CPU where it was kept, otherwise where the VAE is.
        """
        if not self.is_kept:
            return self.encode(self.pixels(place, number))
        return self.gathered([(place, number)])

    def gathered(self, shown: Sequence[Shown]) -> LatentMoments:
        """Those of several views of one size that are kept: (B, 4, h, w) each, on the CPU."""
        mean, std = (self._gather(LATENTS, name, shown) for name in ("mean", "std"))
        return LatentMoments(mean, std)

    def mask(self, place: int, number: int) -> Tensor | None:
        """Where a view counts: (1, 1, h, w), float32 in [0, 1]; None if it has no mask."""
        return self._flat(MASK, place, number)

    def masked(self, place: int, number: int) -> Tensor | None:
        """What an inpainting model sees of a view, (1, 5, h, w), float32.

        None where all is to be painted whatever the view.
        """
        if not self.blanks:
            return None
        seen = self.seen(place, number)
        mean = seen if seen is None or self.is_kept else self.encode(seen).mean
        return self.joined(place, number, mean)

    def seen(self, place: int, number: int) -> Tensor | None:
        """What `joined` needs, as far as that is known without the VAE; None where there is none.

        (1, 4, h, w) where it is kept, otherwise the picture that is to be encoded for it,
        (1, 3, 8h, 8w).
        """
        if SEEN not in self.parts or not self.parts[SEEN].files(self.items[place]):
            return None
        if self.is_kept:
            return self._gather(SEEN, "mean", [(place, number)])
        return self._decoded(SEEN, place, number)

    def joined(self, place: int, number: int, mean: Tensor | None) -> Tensor:
        """The mask of what is to be painted, and the latents of what is seen, (1, 5, h, w).

        mean: those latents, (1, 4, h, w); None where nothing is seen.
        """
        if mean is None:
            mean = self.blanks[self.views.bucket(place, number)]
            return torch.cat([torch.ones_like(mean[:, :1]), mean], dim=1)
        hole = self._flat(HOLE, place, number)
        hole = torch.ones_like(mean[:, :1]) if hole is None else to_device(hole, mean.device)
        return torch.cat([hole, mean], dim=1)

    def pixels(self, place: int, number: int) -> Tensor:
        """A view itself, as it was encoded: (1, 3, 8h, 8w), float32 in [-1, 1]."""
        return self._decoded(LATENTS, place, number)

    def digest_lines(self) -> Iterator[str]:
        """What tells each picture's encodings from others, whether they are kept or not."""
        for place in range(len(self.items)):
            rows = self.views.rows_of(place)
            seen = hashlib.sha256()
            for name in self.parts:
                seen.update(self.keys[name][rows.start : rows.stop].tobytes())
            yield seen.hexdigest()

    def _flat(self, name: str, place: int, number: int) -> Tensor | None:
        """A part that no VAE is needed for, (1, 1, h, w); None where there is none of it."""
        if name not in self.parts or not self.parts[name].files(self.items[place]):
            return None
        if self.is_kept:
            return self._gather(name, name, [(place, number)])
        return self._decoded(name, place, number)

    def _gather(self, part: str, tensor: str, shown: Sequence[Shown]) -> Tensor:
        rows = [self.views.row(place, number) for place, number in shown]
        try:
            return self.store.gather(self.places[part], rows, tensor)
        except DamagedEntry as error:
            _refuse(self.store, error)

    def _decoded(self, name: str, place: int, number: int) -> Tensor:
        item, part = self.items[place], self.parts[name]
        try:
            files = [io.BytesIO(content(item, one, Path.read_bytes)) for one in part.files(item)]
            return part.decode(item, self.views.view(place, number), files)[None]
        except ImageError as error:
            raise UserError(
                f"{error.path}: {error.reason}",
                "The pictures must be left alone while a run uses them",
                "Put it back as it was, or start again without it",
            ) from error


@dataclass(frozen=True)
class EncodedTexts:
    """Captions that can be read encoded. rows: of each caption, the empty one among them."""

    rows: Mapping[str, int]
    store: Store
    places: Places

    def conditioning(self, caption: str) -> Conditioning:
        """A caption encoded: (1, T, D) and (1, P), on the CPU."""
        tensors = self._read(caption)
        pooled = tensors.get("pooled")
        return Conditioning(tensors["hidden"][None], None if pooled is None else pooled[None])

    def tokens(self, caption: str) -> int:
        """How many tokens a caption takes, padding included: T of its conditioning."""
        return len(self._read(caption)["hidden"])

    def _read(self, caption: str) -> dict[str, Tensor]:
        try:
            return self.store.read(self.places, self.rows[caption])
        except DamagedEntry as error:
            _refuse(self.store, error)


def _refuse(store: Store, error: DamagedEntry) -> NoReturn:
    raise EntryLost(
        f"{store.folder}: an encoded picture or caption was removed or damaged",
        "The cache must be left alone while a run uses it",
        "Start again: what is missing is encoded anew",
    ) from error
