"""What is wrong with the files of a folder: one list, which every check, plan and run shows.

Everything is found without decoding images; what their pixels tell, the image check adds. Of masks
some are decoded.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from onetrainer import program
from onetrainer.captions.caption_faults import is_file_name, says_nothing, unread_syntax
from onetrainer.captions.concept_captions import ConceptCaptions
from onetrainer.captions.encoding_findings import encoding_findings
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.concepts.folder_listing import CAPTION_SUFFIXES, FolderImage, FolderListing
from onetrainer.concepts.numbered_folders import numbered_concepts, numbered_text
from onetrainer.dataset.item import (
    HeaderCache,
    Item,
    Skipped,
    has_same_aspect,
    is_uncaptioned,
    known_header,
    wildcard_fault,
)
from onetrainer.errors import some_of
from onetrainer.images.file_kind import kind_of_file
from onetrainer.images.findings import Finding
from onetrainer.images.mask_levels import mask_levels

MAX_WORDS = 75
"""Words and punctuation of a caption that fit one chunk of a text encoder: about one token each."""

FEW = 5
"""Images from which on it is said that all have the same caption, or the names of their files."""

MASKS_READ = 200
"""Masks of a folder that are decoded, from all over it: about a second."""

OTHERS_READ = 5000
"""Other files of a folder whose first bytes are read."""

_EXAMPLES = 3
_SHOWN = 40  # characters
_WORDS = re.compile(r"\w+|[^\w\s]")
_BLACK, _WHITE = 8, 247
"""Levels of 255 below and above which all of a mask is black or white, also as a JPEG."""

_UNFINISHED = frozenset([".part", ".crdownload", ".download", ".partial", ".opdownload"])
"""Extensions of browsers' unfinished downloads."""

_WAYS = {
    "files": "Add a .txt file of the same name",
    "names": "Name the file after what it shows",
    "folders": "Put it into a folder that is named after what it shows",
    "text": "Write the caption for all images (caption_text)",
    "list": "Add a line for it to the caption list (caption_list)",
}


@dataclass(frozen=True)
class FolderContents:
    """What was read of a folder.

    images: All that are listed, with the files of their names. unused: Masks and conditioning
    images of folders of their own that belong to none of them. missed: What may hold the captions
    of images without one, or "".
    """

    concept: ConceptSettings
    listing: FolderListing
    images: Sequence[FolderImage]
    items: Sequence[Item]
    skipped: Sequence[Skipped]
    captions: ConceptCaptions
    unused: Sequence[Path] = ()
    missed: str = ""


def folder_findings(
    contents: FolderContents, headers: HeaderCache | None = None
) -> tuple[Finding, ...]:
    """Return what is wrong with the files of a folder.

    headers: Those that are known; None reads them.
    """
    concept = contents.concept
    found = [unusable_finding(each.path, each.reason) for each in contents.skipped]
    found += _other_files(contents.listing.others)
    found += _orphans(contents)
    if made := numbered_concepts(concept.folder):
        remedy = f'{program()} concepts "{concept.folder}" prints a config that uses them'
        found.append(Finding("repeats", concept.folder, numbered_text(made), remedy))
    if concept.uses_captions:
        found += encoding_findings(concept.folder, contents.captions.misread)
        found += _caption_findings(contents)
    found += _mask_findings(contents, headers)
    return tuple(found)


def unusable_finding(path: Path, reason: str) -> Finding:
    """Return the finding about an image that cannot be used. reason: May end in a remedy."""
    what, _, own = reason.partition("; ")
    remedy = f"{own[0].upper()}{own[1:]}" if own else "Save it again from a program that opens it"
    for sign, other in _REMEDIES.items():
        if sign in what:
            remedy = other
    return Finding("unreadable", path, f"skipped: {what}", f"{remedy}, or remove it")


_REMEDIES = {
    ", too ": "Crop it, use a larger one",  # small, or long
    "cannot be read (": "Check its permissions and its disk",
    "a link to nothing": "Restore the linked file",
    "not an ordinary file": "Move it elsewhere",
}
"""Remedies for skipped images, by part of the reason."""


def hidden_images(others: Iterable[Path]) -> list[Finding]:
    """Return the findings about files that are images but do not have the name of one."""
    return [found for found in _other_files(others) if found.kind == "unused-image"]


def _other_files(others: Iterable[Path]) -> Iterator[Finding]:
    """Yield the files that are images by their first bytes, but not by their extension."""
    for path in islice(others, OTHERS_READ):
        kind = kind_of_file(path)
        if kind is None or kind.noun == "text":
            continue
        remedy = kind.remedy
        if path.suffix.lower() in _UNFINISHED:
            remedy = "Finish its download"
        what = f"{kind.noun}, but not used, as its name does not end like that of an image"
        if not kind.is_image:
            what = f"{kind.noun}, which is not used"
        yield Finding(
            "unused-image" if kind.is_image else "no-image",
            path,
            what,
            f"{remedy[0].upper()}{remedy[1:]}, or remove it",
        )


def _orphans(contents: FolderContents) -> Iterator[Finding]:
    """Yield the files and the lines of a caption list that belong to no image."""
    concept, listing = contents.concept, contents.listing
    texts = listing.captions if concept.caption_source == "files" else ()
    for path in (*texts, *listing.companion_images, *contents.unused):
        is_caption = path.suffix.lower() in CAPTION_SUFFIXES
        noun = "caption" if is_caption else "mask or conditioning image"
        yield Finding(
            "orphan",
            path,
            f"no image in its folder has its name, so this {noun} is not used",
            "Give it the name of its image, or remove it",
        )
    if concept.caption_list is None:
        return
    for entry in contents.captions.unused:
        yield Finding(
            "orphan",
            concept.caption_list,
            f'line {entry.line} names "{entry.file}", but there is no such image',
            "Correct the name, or remove the line",
        )


def _caption_findings(contents: FolderContents) -> Iterator[Finding]:
    concept, items = contents.concept, contents.items
    if contents.missed:
        remedy = "Rename the files, or choose the list, before training on empty captions"
        yield Finding("caption-missing", concept.folder, contents.missed, remedy)
    files = {image.path: image.caption for image in contents.images}
    is_own = concept.caption_source in ("files", "names", "list")
    for item in items:
        yield from _about_caption(item, concept, files.get(item.path))
    own = [item for item in items if any(item.captions)]
    if not is_own or len(own) < FEW or concept.role != "train":
        return  # of a class, all may be called the same
    if concept.caption_source != "names" and len({item.captions for item in own}) == 1:
        yield Finding(
            "caption-same",
            concept.folder,
            f'all {len(own)} captions are "{_cut(own[0].caption)}"',
            "Describe what differs between the images, if they are to be told apart",
        )
    names = [item for item in own if is_file_name(item.caption, item.path.stem)]
    if concept.caption_source == "files" and len(names) == len(own):
        yield Finding(
            "caption-nothing",
            concept.folder,
            f"all {len(own)} captions are the names of their files",
            "Describe what the images show",
        )


def _about_caption(item: Item, concept: ConceptSettings, file: Path | None) -> Iterator[Finding]:
    """Yield findings about one caption; file is the caption file, if any."""
    if is_uncaptioned(item, concept):
        if file is not None and concept.caption_source == "files":
            what = f"its caption file {file.name} is empty"
            yield Finding("caption-empty", item.path, what, "Write a caption into it", file)
            return
        instead = "trigger words only" if concept.trigger.strip() else "an empty one"
        what = f"no caption, so it is trained with {instead}"
        yield Finding("caption-missing", item.path, what, _WAYS[concept.caption_source])
        return
    if fault := wildcard_fault(item, concept):
        yield Finding(
            "caption-braces",
            item.path,
            f"its caption has {fault}, so it is trained with its braces",
            "Correct it; {{ and }} are literal braces",
        )
    longest = max(map(word_count, item.captions))
    if longest > MAX_WORDS:
        yield Finding(
            "caption-long",
            item.path,
            f"its caption has about {longest} words and punctuation marks",
            f"Shorten it to {MAX_WORDS} for other programs; here nothing is truncated",
        )
    if concept.caption_source == "text":
        return
    for caption in item.captions:
        if why := says_nothing(caption, stem=item.path.stem, trigger=concept.trigger):
            what = f"its caption is {why}"
            yield Finding("caption-nothing", item.path, what, "Write what the image shows", file)
            return
    weights, wildcards = concept.caption_weights, concept.captions.wildcards
    for caption in item.captions:
        if part := unread_syntax(caption, weights=weights, wildcards=wildcards):
            yield Finding(
                "caption-syntax",
                item.path,
                f"its caption has {part}, which is trained as plain text",
                "Remove it, unless it is meant as text; data.caption_weights reads weights,"
                " data.captions.wildcards choices",
            )
            return


def _mask_findings(contents: FolderContents, headers: HeaderCache | None) -> Iterator[Finding]:
    concept, items = contents.concept, contents.items
    if concept.masks == "off":
        unused = [image.mask.name for image in contents.images if image.mask is not None]
        if unused and concept.uses_captions and not concept.is_prior:
            yield Finding(
                "mask-unused",
                concept.folder,
                f"{len(unused)} images have a mask ({some_of(unused, _EXAMPLES)}), but masks are"
                " off",
                "Turn them on (data.masks), or remove them",
            )
        return
    masked = [item for item in items if item.mask is not None]
    if not masked and len(items) > 1:
        what = "none of its images has a mask, so they are trained whole"
        yield Finding("mask-missing", concept.folder, what, _masks_wanted(concept))
        return
    for item in items:
        if item.mask is None:
            what = "no mask, so the image is trained whole"
            yield Finding("mask-missing", item.path, what, _masks_wanted(concept))
        elif item.mask != item.path:
            yield from _about_shape(item, item.mask, headers)
    step = -(-len(masked) // MASKS_READ) or 1
    for item in masked[::step]:
        yield from _about_levels(item)


def _about_shape(item: Item, mask: Path, headers: HeaderCache | None) -> Iterator[Finding]:
    header = known_header(mask, headers)
    size = f"{header.width} × {header.height} pixels"
    if not has_same_aspect(header, item):
        yield Finding(
            "mask-shape",
            mask,
            f"{size}, another aspect ratio than its image ({item.width} × {item.height}); it will"
            " be stretched",
            "Save the mask again at the size of its image",
            item.path,
        )


def _about_levels(item: Item) -> Iterator[Finding]:
    assert item.mask is not None
    is_alpha = item.mask == item.path
    levels = mask_levels(item.mask, is_alpha=is_alpha)
    if levels is None:
        return
    low, high = levels
    if high <= _BLACK:
        what = "transparent everywhere" if is_alpha else "black everywhere"
        what, remedy = f"{what}, so nothing of the image is trained", "Mark the parts to train"
    elif low >= _WHITE:
        if is_alpha:
            return  # an image without transparent parts is trained whole, as is usual
        what, remedy = "white everywhere, so it masks nothing", "Mark the parts to ignore"
    elif low == high:
        what = f"one gray everywhere ({low} of 255), so it only weighs the image less"
        remedy = "Mark the parts to train in white"
    else:
        return
    yield Finding("mask-uniform", item.mask, what, f"{remedy}, or remove the mask", item.path)


def _masks_wanted(concept: ConceptSettings) -> str:
    wanted = "Make the parts to ignore transparent"
    if concept.masks == "files" and concept.mask_folder is not None:
        wanted = f'Add a mask with its name to "{concept.mask_folder}"'
    elif concept.masks == "files":
        wanted = 'Add a mask with a name like "cat-masklabel.png" for "cat.jpg"'
    return f"{wanted}, unless the whole image is to be trained"


def word_count(caption: str) -> int:
    """Return the number of words and punctuation marks of a caption."""
    return len(_WORDS.findall(caption))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
