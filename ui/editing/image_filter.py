"""Which images are shown: by what is missing, a finding, folder, bucket, tag or text."""

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onetrainer.captions.placeholder_tokens import token_key
from onetrainer.captions.tag_counts import TagCounts, count_tags
from onetrainer.captions.tag_edits import tags_of
from onetrainer.dataset.buckets import Bucket
from onetrainer.images.findings import HEADLINES, Finding
from ui.editing.image_list import ImageList
from ui.editing.image_rows import ImageRow

EVERYTHING = "All images"
NO_CAPTION, NO_MASK, UNUSABLE = "No caption", "No mask", "Unusable"
_SIMPLE = (NO_CAPTION, NO_MASK, UNUSABLE)
_ALREADY = frozenset(["unreadable", "caption-missing", "caption-empty", "mask-missing"])
"""Kinds of findings that the simple choices cover."""


@dataclass(frozen=True)
class ImageFilter:
    """What images must have to be shown.

    Attributes:
        show: `EVERYTHING`, one of the simple choices, or the headline of a kind of findings.
        concept: Index of a folder; None for all.
        bucket: None for all.
        tag: A tag; "" for any.
        text: A part of the caption or of the file name, in any case.
    """

    show: str = EVERYTHING
    concept: int | None = None
    bucket: Bucket | None = None
    tag: str = ""
    text: str = ""


def matching(
    images: ImageList, wanted: ImageFilter, findings: Sequence[Finding] = ()
) -> Sequence[int]:
    """Return the indices of the images that match a filter."""
    if wanted == ImageFilter():
        return range(len(images.rows))
    text, tag = wanted.text.casefold(), token_key(wanted.tag)
    paths = _found_paths(wanted.show, findings)

    def is_wanted(row: ImageRow) -> bool:
        if wanted.concept is not None and row.concept != wanted.concept:
            return False
        if wanted.bucket is not None and wanted.bucket not in row.buckets:
            return False
        if not _is_shown(row, wanted.show, paths):
            return False
        if text and not any(text in each.casefold() for each in (row.name, *row.captions)):
            return False
        return not tag or any(
            token_key(one) == tag
            for caption in row.captions
            for one in tags_of(caption, images.format_of(row))
        )

    return array("I", (index for index, row in enumerate(images.rows) if is_wanted(row)))


def choices(findings: Sequence[Finding]) -> list[str]:
    """Return what can be chosen to show: findings only where the check has found some."""
    kinds = {finding.kind for finding in findings} - _ALREADY
    return [EVERYTHING, *_SIMPLE, *(head for kind, head in HEADLINES.items() if kind in kinds)]


def bucket_counts(images: ImageList) -> list[tuple[Bucket, int]]:
    """Return the buckets with their numbers of images, the most frequent first."""
    rows, counts = images.rows, Counter[Bucket]()
    for place, number in Counter(rows.sizes).items():  # of images with the same buckets at once
        for bucket in dict.fromkeys(rows.each_size[place]):
            counts[bucket] += number
    return counts.most_common()


def tag_counts(images: ImageList, indices: Sequence[int]) -> TagCounts:
    """Return the tags of some images with the number of captions that have them."""
    rows = (images.rows[index] for index in indices)
    return count_tags(
        tags_of(caption, images.format_of(row)) for row in rows for caption in row.captions
    )


def _is_shown(row: ImageRow, show: str, paths: frozenset[Path]) -> bool:
    match show:
        case "All images":
            return True
        case "No caption":
            return not row.has_caption
        case "No mask":
            return row.mask is None
        case "Unusable":
            return bool(row.reason)
    return row.path in paths


def _found_paths(show: str, findings: Sequence[Finding]) -> frozenset[Path]:
    """Return the images of findings of a kind, and those that they were compared with."""
    some = [finding for finding in findings if HEADLINES[finding.kind] == show]
    others = [finding.other for finding in some if finding.other is not None]
    return frozenset([*(finding.path for finding in some), *others])
