"""The images of all folders with their captions and masks, as the page of images lists them."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

from onetrainer.captions.caption_text import new_caption_path
from onetrainer.captions.texts import Texts
from onetrainer.concepts.folder_listing import FolderImage
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.item_table import ItemTable, Paths, in_few_bytes
from onetrainer.dataset.items import Item


class Listed(NamedTuple):
    """What is known of an image. found: As training reads it, or why it cannot; None while unknown.

    buckets: At each resolution.
    """

    image: FolderImage
    concept: int
    found: Item | str | None = None
    buckets: tuple[Bucket, ...] = ()

    @property
    def mask(self) -> Path | None:
        """Its mask file; None if it has none."""
        own = self.found.mask if isinstance(self.found, Item) else None
        return own if own is not None and own != self.image.path else self.image.mask


class _Change(NamedTuple):
    """What the files of an image have become since all were read."""

    caption: Path | None
    mask: Path | None
    captions: tuple[str, ...]
    item_mask: Path | None


class Rows:
    """All images in a few large pieces of memory, see `ItemTable`; a row is made when asked for."""

    def __init__(self, listed: Sequence[Listed]) -> None:
        sizes: dict[tuple[Bucket, ...], int] = {}
        images = [each.image for each in listed]
        self.paths = Paths(image.path for image in images)
        self.names = Texts(image.name for image in images)
        self.captions = Paths(image.caption for image in images)
        self.masks = Paths(each.mask for each in listed)
        self.concepts = in_few_bytes(each.concept for each in listed)
        self.sizes = in_few_bytes(sizes.setdefault(each.buckets, len(sizes)) for each in listed)
        self.each_size = tuple(sizes)
        self.reasons = {
            index: reason
            for index, each in enumerate(listed)
            if (reason := each.found if isinstance(each.found, str) else each.image.reason)
        }
        self.items = ItemTable([each.found for each in listed if isinstance(each.found, Item)])
        numbers = count()
        self.places = array(
            "i", (next(numbers) if isinstance(each.found, Item) else -1 for each in listed)
        )
        self._changes: dict[int, _Change] = {}

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> "ImageRow":
        """Return an image by its index from 0."""
        return ImageRow(self, index, self._changes.get(index))

    def __iter__(self) -> Iterator["ImageRow"]:
        return map(self.__getitem__, range(len(self)))

    def take(self, rows: Mapping[int, "ImageRow"]) -> None:
        """Take what was read anew of some images."""
        self._changes |= {index: row.change for index, row in rows.items() if row.change}

    def index_of(self, path: Path) -> int:
        """Return the index of an image; -1 if it is not there."""
        same = self.paths.names.indices_of(path.name)
        return next((index for index in same if self.paths[index] == path), -1)

    def has_file(self, path: Path) -> bool:
        """Return whether a path is that of an image, also by links to its folder."""
        folder = path.parent.resolve()
        same = self.paths.names.indices_of(path.name)
        return any(self.paths.path(index).parent.resolve() == folder for index in same)


class ImageRow:
    """One image, as far as it is asked about."""

    __slots__ = ("_index", "_rows", "change")

    def __init__(self, rows: Rows, index: int, change: _Change | None = None) -> None:
        self._rows, self._index, self.change = rows, index, change

    @property
    def path(self) -> Path:
        """Its file."""
        return self._rows.paths.path(self._index)

    @property
    def name(self) -> str:
        """Path below its folder, with "/"."""
        return self._rows.names[self._index]

    @property
    def concept(self) -> int:
        """Index of its folder."""
        return self._rows.concepts[self._index]

    @property
    def reason(self) -> str:
        """Why it cannot be used; "" if it can."""
        return self._rows.reasons.get(self._index, "")

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """Its bucket at each resolution."""
        return self._rows.each_size[self._rows.sizes[self._index]]

    @property
    def is_read(self) -> bool:
        """Whether there is an `item`."""
        return self._rows.places[self._index] >= 0

    @property
    def item(self) -> Item | None:
        """The image as training reads it; None while unknown, and if it cannot be used."""
        place, change = self._rows.places[self._index], self.change
        if place < 0:
            return None
        item = self._rows.items[place]
        if change is None:
            return item
        return replace(item, captions=change.captions, mask=change.item_mask)

    @property
    def caption(self) -> Path | None:
        """Its caption file; None if it has none."""
        return self._rows.captions[self._index] if self.change is None else self.change.caption

    @property
    def mask(self) -> Path | None:
        """Its mask file; None if it has none."""
        return self._rows.masks[self._index] if self.change is None else self.change.mask

    @property
    def captions(self) -> tuple[str, ...]:
        """Its captions; ("",) without one."""
        if self.change is not None:
            return self.change.captions
        place = self._rows.places[self._index]
        return self._rows.items.captions(place) if place >= 0 else ("",)

    @property
    def has_caption(self) -> bool:
        """Whether any caption is not empty."""
        return any(self.captions)

    @property
    def caption_path(self) -> Path:
        """Its caption file, which may not exist yet."""
        return self.caption or new_caption_path(self.path)

    def changed(
        self,
        caption: Path | None,
        mask: Path | None,
        captions: tuple[str, ...],
        item_mask: Path | None,
    ) -> "ImageRow":
        """Return the image with other files."""
        return ImageRow(self._rows, self._index, _Change(caption, mask, captions, item_mask))
