"""The images of one concept: usable items, skipped files and the reasons."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from onetrainer.captions.concept_captions import ConceptCaptions
from onetrainer.captions.missed_captions import missed_captions
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.concepts.folder_listing import FolderImage, images_by_name, list_folder
from onetrainer.dataset.folder_findings import FolderContents, folder_findings, hidden_images
from onetrainer.dataset.item import (
    HeaderCache,
    Item,
    Skipped,
    counted_images,
    has_same_aspect,
    is_uncaptioned,
    known_header,
    wildcard_fault,
)
from onetrainer.errors import UserError, some_of
from onetrainer.images.findings import Finding
from onetrainer.images.header import Header
from onetrainer.images.image_file import ImageError

__all__ = [
    "DatasetIndex",
    "Header",
    "HeaderCache",
    "Item",
    "Skipped",
    "counted_images",
    "has_same_aspect",
    "index_concept",
    "is_uncaptioned",
    "wildcard_fault",
]

MAX_ASPECT = 8
"""Largest aspect ratio that is not skipped: at 8:1, a bucket of 4:1 shows only half the image."""

MIN_SIDE = 16
"""Smallest side in pixels that is not skipped: enlarged, such an image is nothing but blur."""

WATCHED = 200
"""Images after which a listing can be canceled: a second's work, of a slow disk."""

EXAMPLES = 3
"""Number of images that an error names."""


Watch = Callable[[int, int], None]


@dataclass(frozen=True)
class DatasetIndex:
    """The contents of a concept's folder.

    uncaptioned: number of items without a caption. findings: what is wrong with the files. inner:
    subfolders that were not read. missed: what may hold the captions of images without one, or "".
    """

    items: tuple[Item, ...]
    skipped: tuple[Skipped, ...]
    uncaptioned: int
    findings: tuple[Finding, ...] = ()
    inner: tuple[Path, ...] = ()
    missed: str = ""

    @property
    def masked(self) -> int:
        """Number of items with a mask."""
        return sum(item.mask is not None for item in self.items)


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
    images, unused = _with_companions(listing.images, concept)
    captions = ConceptCaptions(concept, images)
    items: list[Item] = []
    skipped: list[Skipped] = []
    for count, image in enumerate(images):
        if watch and count and count % WATCHED == 0:
            watch(count, len(images))
        try:
            items.append(_read_item(image, concept, number, captions, headers))
        except ImageError as error:
            skipped.append(Skipped(image.path, error.reason))
    if not items:
        raise no_images_error(root, skipped, recursive=concept.recursive)
    uncaptioned = sum(is_uncaptioned(item, concept) for item in items)
    missed = (
        missed_captions(listing.images) if uncaptioned and concept.caption_source == "files" else ""
    )
    if concept.require_captions and uncaptioned == len(items):
        raise _no_captions_error(concept, items, captions, missed)
    contents = FolderContents(concept, listing, images, items, skipped, captions, unused, missed)
    return DatasetIndex(
        tuple(items),
        tuple(skipped),
        uncaptioned,
        folder_findings(contents, headers),
        inner=listing.inner,
        missed=missed,
    )


def _read_item(
    image: FolderImage,
    concept: ConceptSettings,
    number: int,
    captions: ConceptCaptions,
    headers: HeaderCache | None,
) -> Item:
    """Read an item. Raises ImageError if it is unusable."""
    if image.reason:
        raise ImageError(image.path, image.reason)
    own = captions.of(image)
    header = known_header(image.path, headers)
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
    for path, noun in ((item.mask, "mask"), (item.conditioning, "conditioning image")):
        if path is None or path == item.path:
            continue
        try:
            known_header(path, headers)
        except ImageError as error:
            raise ImageError(item.path, f'its {noun} "{path.name}": {error.reason}') from error
    return item


def _with_companions(
    images: Sequence[FolderImage], concept: ConceptSettings
) -> tuple[Sequence[FolderImage], list[Path]]:
    """Return images with the masks and conditioning images of folders of their own, if used.

    Also returns the files there that belong to no image.
    """
    unused: list[Path] = []

    def named(folder: Path) -> list[Path | None]:
        readable = _readable_folder(concept, folder)
        found = images_by_name(readable, recursive=concept.recursive)
        names = [(image.group, image.stem) for image in images]
        known = set(names)
        unused.extend(path for name, path in found.items() if name not in known)
        return [found.get(name) for name in names]

    if concept.masks == "files" and concept.mask_folder is not None:
        own = zip(images, named(concept.mask_folder), strict=True)
        images = [image._replace(mask=path) for image, path in own]
    if concept.conditioning == "files" and concept.conditioning_folder is not None:
        own = zip(images, named(concept.conditioning_folder), strict=True)
        images = [image._replace(conditioning=path) for image, path in own]
    return images, unused


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
        turn_on = 'Turn on "Include subfolders" (data.include_subfolders)'
        return UserError(what, remedy=f"{turn_on}, or choose one of them")
    if hidden := hidden_images(list_folder(root, recursive=recursive).others):
        some = some_of([f"{each.path.name} ({each.what})" for each in hidden], EXAMPLES)
        what = f"{root} has no images by the names of its files: {some}"
        return UserError(what, remedy=hidden[0].remedy)
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
            'Write it under "Caption" (caption_text), or take captions from text files',
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
