"""The pictures of one concept, listed: what there is, and what is left out and why."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from onetrainer.captions.caption_file import CaptionError
from onetrainer.captions.caption_list_file import CaptionEntry
from onetrainer.captions.concept_captions import ConceptCaptions
from onetrainer.concepts.concepts import PRIOR_ROLES, ConceptSettings
from onetrainer.concepts.folder_listing import FolderImage, list_folder
from onetrainer.config.data.concept import Role
from onetrainer.errors import UserError
from onetrainer.images.findings import printable
from onetrainer.images.header import Header, read_header
from onetrainer.images.image_file import ImageError

__all__ = ["DatasetIndex", "Header", "HeaderCache", "Item", "Skipped", "index_concept"]

MAX_ASPECT = 8
"""Longer pictures are skipped: of 8:1, a bucket of 4:1 shows half already."""

MIN_SIDE = 16
"""Smaller pictures, in pixels a side, are skipped: blown up they teach nothing but blur."""

EXAMPLES = 3
"""How many pictures an error names."""


@dataclass(frozen=True, slots=True)
class Item:
    """One picture with its captions.

    captions: one or several that are said of it alike, as they are written; ("",) of a picture that
    has none. width, height: in pixels, upright (after EXIF rotation). mask: the picture that tells
    where this one counts, which is its own path where its transparency does; None means that all of
    it counts. conditioning: the picture that an inpainting model is shown beside it, if it has one
    of its own. concept: the place of its concept in the data set. group: the folder it lies in,
    below that of the concept, "" for that itself. name: its path below the concept's folder, with
    "/" and in one spelling (NFC) on every system; what is drawn for a picture is drawn by it.
    focus: the point to cut around, as shares of width and height, where a list of captions says it.
    """

    path: Path
    captions: tuple[str, ...]
    width: int
    height: int
    mask: Path | None = None
    conditioning: Path | None = None
    role: Role = "train"
    concept: int = 0
    group: str = ""
    name: str = ""
    focus: tuple[float, float] | None = None

    @property
    def caption(self) -> str:
        """The first caption; "" if it has none."""
        return self.captions[0]

    @property
    def is_prior(self) -> bool:
        """Whether it stands for what the model is to keep."""
        return self.role in PRIOR_ROLES


@dataclass(frozen=True, slots=True)
class Skipped:
    """A picture, or folder, that is left out. reason: in words."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"

    @property
    def name(self) -> str:
        """Its file's name, as every terminal and file can hold it."""
        return printable(self.path.name.encode(errors="replace").decode())


@dataclass(frozen=True)
class DatasetIndex:
    """What a concept's folder holds.

    uncaptioned: how many of the items have no caption. notes: other things worth telling.
    orphans: captions, masks and pictures to paint from that belong to no picture. unlisted: entries
    of a list of captions that name none. inner: the folders in it that were not looked into.
    """

    items: tuple[Item, ...]
    skipped: tuple[Skipped, ...]
    uncaptioned: int
    notes: tuple[str, ...] = ()
    orphans: tuple[Path, ...] = ()
    unlisted: tuple[CaptionEntry, ...] = ()
    inner: tuple[Path, ...] = ()

    @property
    def masked(self) -> int:
        """How many of the items have a mask."""
        return sum(item.mask is not None for item in self.items)


class HeaderCache(Protocol):
    """A memory of headers: those of files that have not changed since need not be read again."""

    def known(self, path: Path) -> Header | None:
        """The header of a file as it is now; None if it has to be read."""
        ...

    def learn(self, path: Path, header: Header) -> None:
        """Keeps a header that has just been read."""
        ...


def index_concept(
    concept: ConceptSettings, *, number: int = 0, headers: HeaderCache | None = None
) -> DatasetIndex:
    """Lists a concept's pictures in the order of their names, reading headers only.

    The order is natural (2 before 10), blind to case, and the same on every file system.
    number: the concept's place in the data set. A picture whose mask cannot be read is skipped:
    without it, it would be learned as what was not meant.
    Raises UserError if there is nothing to learn, or no caption though captions are required.
    """
    root = _checked(concept)
    listing = list_folder(root, recursive=concept.recursive)
    captions = ConceptCaptions(concept, listing.images)
    reader = _Reader(concept, number, captions, headers)
    items = [item for found in listing.images if (item := reader.item(found)) is not None]
    if not items:
        raise _nothing_to_learn(root, reader.skipped, recursive=concept.recursive)
    uncaptioned = sum(is_uncaptioned(item, concept) for item in items)
    if concept.require_captions and uncaptioned == len(items):
        raise _no_captions(concept, items, captions)
    # What is said of the whole folder comes first: of single pictures there may be many notes.
    notes = [*captions.notes]
    unmasked = sum(item.mask is None for item in items)
    if concept.masks != "off" and unmasked:
        each = "it" if unmasked == 1 else "each"
        notes.append(f"{lacking(unmasked, len(items))} no mask; all of {each} counts")
    texts = listing.captions if concept.caption_source == "files" else ()
    return DatasetIndex(
        tuple(items),
        tuple(reader.skipped),
        uncaptioned,
        (*notes, *reader.notes),
        orphans=(*texts, *listing.labels),
        unlisted=captions.unused,
        inner=listing.inner,
    )


def is_uncaptioned(item: Item, concept: ConceptSettings) -> bool:
    """Whether a picture has no caption where one is expected."""
    return not any(item.captions) and not concept.uses_trigger_only


def lacking(some: int, count: int) -> str:
    """The beginning of what is said of those that lack something: "1 of 15 pictures has"."""
    noun = "picture" if count == 1 else "pictures"
    return f"{some} of {count} {noun} {'has' if some == 1 else 'have'}"


def has_same_aspect(label: Header, item: Item) -> bool:
    """Whether one is a scaling of the other, up to a pixel that rounding may cost."""
    across = abs(label.width * item.height - item.width * label.height)
    return across <= max(item.width, item.height, label.width, label.height)


class _Reader:
    """Makes items of what was found, and tells of what cannot be one."""

    def __init__(
        self,
        concept: ConceptSettings,
        number: int,
        captions: ConceptCaptions,
        headers: HeaderCache | None,
    ) -> None:
        self._concept = concept
        self._number = number
        self._captions = captions
        self._headers = headers
        self.skipped: list[Skipped] = []
        self.notes: list[str] = []

    def item(self, found: FolderImage) -> Item | None:
        """An item; None for what has to be skipped."""
        if found.reason:
            self.skipped.append(Skipped(found.path, found.reason))
            return None
        try:
            item, notes = self._read(found)
        except (ImageError, CaptionError) as error:
            self.skipped.append(Skipped(found.path, error.reason))
            return None
        self.notes += notes
        return item

    def _read(self, found: FolderImage) -> tuple[Item, list[str]]:
        """Raises PictureError or CaptionError for what cannot be read, or is no use."""
        said = self._captions.of(found)
        header = self._header(found.path)
        _require_usable(found.path, header)
        alpha = found.path if header.has_alpha else None
        item = Item(
            found.path,
            said.captions,
            header.width,
            header.height,
            {"off": None, "files": found.mask, "alpha": alpha}[self._concept.masks],
            found.conditioning if self._concept.conditioning == "files" else None,
            self._concept.role,
            self._number,
            found.group,
            found.name,
            said.focus,
        )
        notes = [said.note] if said.note else []
        for path, noun in ((item.mask, "mask"), (item.conditioning, "picture to paint from")):
            if path is not None and path != item.path:
                notes += self._label_notes(path, noun, item)
        return item, notes

    def _label_notes(self, path: Path, noun: str, item: Item) -> list[str]:
        """What to tell of a picture that goes with an item. Raises PictureError."""
        try:
            label = self._header(path)
        except ImageError as error:
            raise ImageError(item.path, f'its {noun} "{path.name}": {error.reason}') from error
        if has_same_aspect(label, item):
            return []
        return [
            f"{path.name} is {label.width} × {label.height} pixels, of another shape than its"
            f" picture ({item.width} × {item.height}); it is stretched to it"
        ]

    def _header(self, path: Path) -> Header:
        known = self._headers.known(path) if self._headers is not None else None
        if known is not None:
            return known
        header = read_header(path)
        if self._headers is not None:
            self._headers.learn(path, header)
        return header


def _require_usable(path: Path, header: Header) -> None:
    """Raises PictureError if the header tells of a size that is no use."""
    width, height = header.width, header.height
    size = f"{width} × {height} pixels"
    if min(width, height) < MIN_SIDE:
        raise ImageError(path, f"{size}, too small: at least {MIN_SIDE} a side are needed")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise ImageError(path, f"{size}, too long: more than {MAX_ASPECT} to 1")


def _checked(concept: ConceptSettings) -> Path:
    """The folder, if there is one and it can be looked into."""
    root = concept.folder
    choose = f'Choose another folder under "{concept.label}" ({concept.place})'
    expected = "A folder of pictures is needed"
    if not root.exists():
        raise UserError(f"{root}: there is no such folder", expected, choose)
    if not root.is_dir():
        raise UserError(f"{root} is a file, not a folder", expected, choose)
    try:
        with os.scandir(root) as entries:
            empty = next(entries, None) is None
    except OSError as error:
        what = f"{root}: this folder cannot be read ({error.strerror})"
        raise UserError(what, expected, "Allow reading it, or choose another") from error
    if empty:
        raise UserError(f"{root} is empty", expected, "Put pictures there, or choose another")
    return root


def _nothing_to_learn(root: Path, skipped: list[Skipped], *, recursive: bool) -> UserError:
    if skipped:
        some = "; ".join(map(str, skipped[:EXAMPLES]))
        more = f"; and {len(skipped) - EXAMPLES} more" if len(skipped) > EXAMPLES else ""
        what = f"{root}: none of its {len(skipped)} pictures can be used ({some}{more})"
        return UserError(what, "At least one usable picture is needed", "Replace or repair them")
    inside = () if recursive else list_folder(root, recursive=True).images
    if inside:
        what = f"{root} has no pictures itself, only in folders within it: {_largest(inside)}"
        return UserError(what, remedy='Turn on "Include subfolders", or choose one of them')
    return UserError(
        f"{root} has no pictures",
        "PNG, JPEG, WebP, BMP, GIF, TIFF or AVIF files are needed",
        "Put some there, or choose another folder",
    )


def _largest(inside: Sequence[FolderImage]) -> str:
    """The folders with the most pictures, and how many more there are."""
    counts = Counter(found.group for found in inside)
    some = ", ".join(f'"{group}" ({count})' for group, count in counts.most_common(EXAMPLES))
    return some + (f" and {len(counts) - EXAMPLES} more" if len(counts) > EXAMPLES else "")


# Folders that have no source of captions to choose, and what they have instead.
_OTHER_CAPTIONS = {
    "data.class_folder": " write one for all of them (data.class_text),",
    "validation.folder": " choose a list of them (validation.caption_list),",
}


def _no_captions(
    concept: ConceptSettings, items: list[Item], captions: ConceptCaptions
) -> UserError:
    example = items[0].path
    if concept.caption_source == "text":
        return UserError(
            f"{concept.folder}: one text is to be the caption of all its pictures, but it is empty",
            "A caption, or trigger words, are needed",
            'Write it under "Caption", or take captions from text files',
        )
    none = f"none of its {len(items)} pictures has a" if len(items) > 1 else "its picture has no"
    what = f"{concept.folder}: {none} caption"
    other = _OTHER_CAPTIONS.get(concept.place, "")
    without = 'turn off "Require captions" (data.require_captions) to train without'
    if concept.caption_source == "list" and concept.caption_list is not None:
        why, expected = _list_fault(concept.caption_list, captions, example.name)
        remedy = f"Correct it,{other} choose another list, or {without}"
        return UserError(f"{what}: {why}", expected, remedy)
    return UserError(
        what,
        f'A text file beside each is needed, such as "{example.stem}.txt" for "{example.name}"',
        f"Write captions,{other} or {without}",
    )


def _list_fault(path: Path, captions: ConceptCaptions, example: str) -> tuple[str, str]:
    """Why a list gives no picture a caption, and what was expected. example: a picture's name."""
    if captions.listed > len(captions.unused) or not captions.unused:
        return f"all that {path} says of them is empty", "A line of words for each is needed"
    first, count = captions.unused[0], captions.listed
    entries = f"{count} entries" if count > 1 else "1 entry"
    return (
        f"{path} has {entries}, of which none fits them",
        f'It is about "{first.file}" (line {first.line}), for one; a picture here is called'
        f' "{example}"',
    )
