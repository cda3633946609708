"""The images of one concept: usable items, skipped files and the reasons."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from onetrainer.captions.caption_list_file import CaptionEntry
from onetrainer.captions.choices import brace_fault
from onetrainer.captions.concept_captions import ConceptCaptions
from onetrainer.captions.missed_captions import missed_captions
from onetrainer.concepts.concepts import PRIOR_ROLES, ConceptSettings
from onetrainer.concepts.folder_listing import FolderImage, images_by_name, list_folder
from onetrainer.config.data.concept import Role
from onetrainer.errors import UserError, some_of
from onetrainer.images.findings import printable
from onetrainer.images.header import Header, read_header
from onetrainer.images.image_file import ImageError

__all__ = ["DatasetIndex", "Header", "HeaderCache", "Item", "Skipped", "index_concept"]

MAX_ASPECT = 8
"""Largest aspect ratio that is not skipped: at 8:1, a bucket of 4:1 shows only half the image."""

MIN_SIDE = 16
"""Smallest side in pixels that is not skipped: enlarged, such an image is nothing but blur."""

WATCHED = 200
"""Images after which a listing can be canceled: a second's work, of a slow disk."""

EXAMPLES = 3
"""Number of images that an error names."""


Watch = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Item:
    """An image with its captions.

    Attributes:
        captions: alternative captions as written; ("",) if there is none.
        width: in pixels, upright (after EXIF rotation).
        height: in pixels, upright.
        mask: file of the loss mask, equal to path if it is the alpha channel; None without a mask.
        conditioning: file of the image that the model sees as a condition, if there is one.
        concept: index of its concept in the dataset.
        group: folder below the concept's folder, "" for that itself.
        name: path below the concept's folder, with "/" and NFC on every system. It seeds all
            random choices about the image.
        focus: center of the crop as fractions of width and height, if a caption list gives it.
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
        """The first caption; "" if there is none."""
        return self.captions[0]

    @property
    def is_prior(self) -> bool:
        """Whether the image is for prior preservation."""
        return self.role in PRIOR_ROLES


@dataclass(frozen=True, slots=True)
class Skipped:
    """An image or folder that is skipped, and the reason as text."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"

    @property
    def described(self) -> str:
        """It among several in a sentence: "a.png (its end is missing)"."""
        return f"{self.name} ({self.reason})"

    @property
    def name(self) -> str:
        """The file name, printable in every terminal."""
        return printable(self.path.name.encode(errors="replace").decode())


@dataclass(frozen=True)
class DatasetIndex:
    """The contents of a concept's folder.

    uncaptioned: number of items without a caption. orphans: captions, masks and conditioning images
    that belong to no image. unlisted: entries of a caption list that match no image. inner:
    subfolders that were not read. missed: what may hold the captions of images without one, or "".
    """

    items: tuple[Item, ...]
    skipped: tuple[Skipped, ...]
    uncaptioned: int
    notes: tuple[str, ...] = ()
    orphans: tuple[Path, ...] = ()
    unlisted: tuple[CaptionEntry, ...] = ()
    inner: tuple[Path, ...] = ()
    missed: str = ""

    @property
    def masked(self) -> int:
        """Number of items with a mask."""
        return sum(item.mask is not None for item in self.items)


class HeaderCache(Protocol):
    """A cache of image headers, so that unchanged files need not be read again."""

    def cached_header(self, path: Path) -> Header | None:
        """Return the cached header of a file; None if it must be read."""
        ...

    def store_header(self, path: Path, header: Header) -> None:
        """Store a header that was just read."""
        ...


def index_concept(
    concept: ConceptSettings,
    *,
    number: int = 0,
    headers: HeaderCache | None = None,
    watch: Watch | None = None,
) -> DatasetIndex:
    """List the images of a concept in the order of their names, reading headers only.

    The order is natural (2 before 10), case-insensitive, and the same on every file system. An
    image whose mask cannot be read is skipped, as training on all of it is not what was meant.

    number: index of the concept in the dataset. headers: None reads them all. watch: called with
    (images done, total) after every few hundred; what it raises ends the listing. Raises UserError
    if there are no usable images, or no captions though they are required.
    """
    root = _readable_folder(concept, concept.folder)
    listing = list_folder(root, recursive=concept.recursive)
    images = _with_companions(listing.images, concept)
    captions = ConceptCaptions(concept, images)
    items: list[Item] = []
    skipped: list[Skipped] = []
    item_notes: list[str] = []
    for count, image in enumerate(images):
        if watch and count and count % WATCHED == 0:
            watch(count, len(images))
        try:
            item, notes = _read_item(image, concept, number, captions, headers)
        except ImageError as error:
            skipped.append(Skipped(image.path, error.reason))
        else:
            items.append(item)
            item_notes += notes
    if not items:
        raise no_images_error(root, skipped, recursive=concept.recursive)
    uncaptioned = sum(is_uncaptioned(item, concept) for item in items)
    missed = (
        missed_captions(listing.images) if uncaptioned and concept.caption_source == "files" else ""
    )
    if concept.require_captions and uncaptioned == len(items):
        raise _no_captions_error(concept, items, captions, missed)
    # Notes about the whole folder come first: there may be many about single images.
    notes = [*captions.notes]
    unmasked = sum(item.mask is None for item in items)
    if concept.masks != "off" and unmasked:
        each = "It is" if unmasked == 1 else "They are"
        notes.append(f"{counted_images(unmasked, len(items))} no mask. {each} trained whole")
    texts = listing.captions if concept.caption_source == "files" else ()
    return DatasetIndex(
        tuple(items),
        tuple(skipped),
        uncaptioned,
        (*notes, *item_notes),
        orphans=(*texts, *listing.companion_images),
        unlisted=captions.unused,
        inner=listing.inner,
        missed=missed,
    )


def is_uncaptioned(item: Item, concept: ConceptSettings) -> bool:
    """Return whether an image has no caption although one is expected."""
    return not any(item.captions) and not concept.uses_trigger_only


def wildcard_fault(item: Item, concept: ConceptSettings) -> str:
    """Return why wildcards of a caption cannot be resolved, so that braces are trained; or ""."""
    if not concept.captions.wildcards:
        return ""
    return next(filter(None, map(brace_fault, item.captions)), "")


def counted_images(some: int, count: int) -> str:
    """Return the beginning of a message about missing files: "1 of 15 images has"."""
    noun = "image" if count == 1 else "images"
    return f"{some} of {count} {noun} {'has' if some == 1 else 'have'}"


def has_same_aspect(companion: Header, item: Item) -> bool:
    """Return whether a mask is a scaled version of an image, up to a pixel of rounding."""
    across = abs(companion.width * item.height - item.width * companion.height)
    return across <= max(item.width, item.height, companion.width, companion.height)


def _read_item(
    image: FolderImage,
    concept: ConceptSettings,
    number: int,
    captions: ConceptCaptions,
    headers: HeaderCache | None,
) -> tuple[Item, list[str]]:
    """Read an item and notes about it. Raises ImageError if it is unusable."""
    if image.reason:
        raise ImageError(image.path, image.reason)
    own = captions.of(image)
    header = _header(image.path, headers)
    width, height = header.width, header.height
    size = f"{width} × {height} pixels"
    if min(width, height) < MIN_SIDE:
        raise ImageError(image.path, f"{size}, too small: each side needs at least {MIN_SIDE}")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise ImageError(image.path, f"{size}, too long: more than {MAX_ASPECT} to 1")
    alpha = image.path if header.has_alpha else None
    item = Item(
        image.path,
        own.captions,
        width,
        height,
        {"off": None, "files": image.mask, "alpha": alpha}[concept.masks],
        image.conditioning if concept.conditioning == "files" else None,
        concept.role,
        number,
        image.group,
        image.name,
        own.focus,
    )
    notes = [own.note] if own.note else []
    if fault := wildcard_fault(item, concept):
        notes.append(f"{image.path.name}: its caption has {fault}, and is trained as written")
    for path, noun in ((item.mask, "mask"), (item.conditioning, "conditioning image")):
        if path is None or path == item.path:
            continue
        try:
            companion = _header(path, headers)
        except ImageError as error:
            raise ImageError(item.path, f'its {noun} "{path.name}": {error.reason}') from error
        if not has_same_aspect(companion, item):
            notes.append(
                f"{path.name} ({companion.width} × {companion.height} pixels) has another aspect"
                f" ratio than its image ({width} × {height}) and will be stretched"
            )
    return item, notes


def _with_companions(
    images: Sequence[FolderImage], concept: ConceptSettings
) -> Sequence[FolderImage]:
    """Return images with the masks and conditioning images of folders of their own, if used."""

    def named(folder: Path) -> list[Path | None]:
        readable = _readable_folder(concept, folder)
        found = images_by_name(readable, recursive=concept.recursive)
        return [found.get((image.group, image.stem)) for image in images]

    if concept.masks == "files" and concept.mask_folder is not None:
        own = zip(images, named(concept.mask_folder), strict=True)
        images = [image._replace(mask=path) for image, path in own]
    if concept.conditioning == "files" and concept.conditioning_folder is not None:
        own = zip(images, named(concept.conditioning_folder), strict=True)
        images = [image._replace(conditioning=path) for image, path in own]
    return images


def _header(path: Path, headers: HeaderCache | None) -> Header:
    cached = headers.cached_header(path) if headers is not None else None
    if cached is not None:
        return cached
    header = read_header(path)
    if headers is not None:
        headers.store_header(path, header)
    return header


def _readable_folder(concept: ConceptSettings, root: Path) -> Path:
    """Return a folder of a concept after checking that it can be read and is not empty."""
    choose = f'Choose another folder under "{concept.label}" ({concept.setting_path})'
    expected = "An image folder is needed"
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
        raise UserError(f"{root} is empty", expected, "Put images there, or choose another")
    return root


def no_images_error(root: Path, skipped: Sequence[Skipped], *, recursive: bool) -> UserError:
    """Return the error of a folder without a usable image."""
    if skipped:
        some = "; ".join(map(str, skipped[:EXAMPLES]))
        more = f"; and {len(skipped) - EXAMPLES} more" if len(skipped) > EXAMPLES else ""
        what = f"{root}: none of its {len(skipped)} images can be used ({some}{more})"
        return UserError(what, "At least one usable image is needed", "Replace or repair them")
    images = () if recursive else list_folder(root, recursive=True).images
    if images:
        counts = Counter(image.group for image in images)
        groups = [f'"{group}" ({count})' for group, count in counts.most_common()]
        what = f"{root} has images only in subfolders: {some_of(groups, EXAMPLES)}"
        return UserError(what, remedy='Turn on "Include subfolders", or choose one of them')
    return UserError(
        f"{root} has no images",
        "PNG, JPEG, WebP, BMP, GIF, TIFF or AVIF files are needed",
        "Put some there, or choose another folder",
    )


# Folders without a choice of caption source, and what they have instead.
_OTHER_CAPTIONS = {
    "data.class_folder": " write one for all of them (data.class_text),",
    "validation.folder": " choose a list of them (validation.caption_list),",
}


def _no_captions_error(
    concept: ConceptSettings, items: list[Item], captions: ConceptCaptions, missed: str
) -> UserError:
    example = items[0].path
    if concept.caption_source == "text":
        return UserError(
            f"{concept.folder}: the caption for all its images is empty",
            "A caption or trigger words are needed",
            'Write it under "Caption", or take captions from text files',
        )
    none = f"none of its {len(items)} images has a" if len(items) > 1 else "its image has no"
    what = f"{concept.folder}: {none} caption{missed and f'; {missed}'}"
    other = _OTHER_CAPTIONS.get(concept.setting_path, "")
    without = 'turn off "Require captions" (data.require_captions) to train without'
    path = concept.caption_list
    if concept.caption_source != "list" or path is None:
        return UserError(
            what,
            f'Each needs a text file, such as "{example.stem}.txt" for "{example.name}"',
            f"Write captions,{other} or {without}",
        )
    remedy = f"Correct it,{other} choose another list, or {without}"
    if captions.listed > len(captions.unused) or not captions.unused:
        why = f"{what}: all captions in {path} are empty"
        return UserError(why, "A caption for each is needed", remedy)
    first, count = captions.unused[0], captions.listed
    entries = f"{count} entries" if count > 1 else "1 entry"
    return UserError(
        f"{what}: {path} has {entries}, but none matches an image",
        f'For example, it names "{first.file}" (line {first.line}), while an image here is called'
        f' "{example.name}"',
        remedy,
    )
