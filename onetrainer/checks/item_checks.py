"""Checks of a single image: size, detail, captions, mask."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.config.data.concept import CaptionSource
from onetrainer.dataset.items import (
    HeaderCache,
    Item,
    has_same_aspect,
    is_uncaptioned,
    wildcard_fault,
)
from onetrainer.dataset.transforms import plain_transform, upscale_factor
from onetrainer.images.detail import Detail
from onetrainer.images.findings import Finding
from onetrainer.images.header import read_header
from onetrainer.images.image_file import ImageError

MAX_UPSCALING = 1.25
"""Upscaling above which an image has less than two thirds of the pixels."""

MIN_DETAIL = 0.5
"""Finest detail at the trained size below which an image is blurred. Measured: sharp images have 1,
images blurred by 0.7 pixels at least 0.53, by 1.5 pixels at most 0.47.
"""

TRACE = 13.0
"""Traces above which an image was upscaled. Measured: at most 12 in images that were not."""

MIN_STRONG_DETAIL = 0.8
"""Upscaling does not matter if the visible detail is finer than this."""

MAX_WORDS = 75
"""Words and punctuation of a caption that fit one chunk of a text encoder: about one token each."""

_WAYS: Mapping[CaptionSource, str] = {
    "files": "Add a .txt file of the same name",
    "names": "Name the file after what it shows",
    "folders": "Put it into a folder that is named after what it shows",
    "text": "Write the caption for all images (caption_text)",
    "list": "Add a line for it to the caption list (caption_list)",
}
"""Ways to add a caption, by its source."""


def size_findings(item: Item, concept: ConceptSettings) -> Iterator[Finding]:
    """Yield a finding if an image is too small for the size it is trained at."""
    transform = plain_transform(item, concept)
    factor, bucket = upscale_factor(item, transform), transform.bucket
    if factor > MAX_UPSCALING:
        yield Finding(
            "too-small",
            item.path,
            f"{item.width} × {item.height} pixels, enlarged {factor:.1f} times to"
            f" {bucket.width} × {bucket.height}",
            "Use a larger version, or train it at a smaller size (data.buckets.upscale_limit)",
        )


def detail_findings(item: Item, concept: ConceptSettings, detail: Detail) -> Iterator[Finding]:
    """Yield a finding if an image has less detail than the size it is trained at can show."""
    # For an image that is scaled down, only the remaining detail matters.
    factor = min(1.0, upscale_factor(item, plain_transform(item, concept)))
    width, height = item.width, item.height
    blocks = detail.block > 1 and 1 / (detail.block * factor) <= MIN_DETAIL
    if blocks or (detail.trace >= TRACE and detail.strong < MIN_STRONG_DETAIL * factor):
        fraction = 1 / detail.block if blocks else detail.strong
        small = f"{round(width * fraction)} × {round(height * fraction)}"
        yield Finding(
            "upscaled",
            item.path,
            f"{width} × {height} pixels, but its detail would fit into about {small}",
            "Use the original image at its own size",
        )
    elif detail.finest < MIN_DETAIL * factor:
        percent = 100 * detail.finest / factor
        yield Finding(
            "blurred",
            item.path,
            f"nothing in it is sharp: its finest detail is {percent:.0f} % as fine as its training"
            " size can show",
            "Use a sharper image or remove it, unless softness is intended",
        )


def caption_findings(item: Item, concept: ConceptSettings, file: Path | None) -> Iterator[Finding]:
    """Yield findings about a caption; file is the caption file, if any."""
    if fault := wildcard_fault(item, concept):
        yield Finding(
            "caption-braces",
            item.path,
            f"its caption has {fault}, so it is trained with its braces",
            "Correct it; {{ and }} are literal braces",
        )
    longest = max(item.captions, key=_words)
    if not is_uncaptioned(item, concept):
        if _words(longest) > MAX_WORDS:
            yield Finding(
                "caption-long",
                item.path,
                f"its caption has about {_words(longest)} words and punctuation marks",
                f"Shorten it to {MAX_WORDS} for other programs; here nothing is truncated",
            )
    elif file is not None:
        what = f"its caption file {file.name} is empty"
        yield Finding("caption-empty", item.path, what, "Write a caption into it", file)
    else:
        instead = "trigger words only" if concept.trigger.strip() else "an empty one"
        what = f"no caption, so it is trained with {instead}"
        yield Finding("caption-missing", item.path, what, _WAYS[concept.caption_source])


def mask_findings(
    item: Item, concept: ConceptSettings, headers: HeaderCache | None
) -> Iterator[Finding]:
    """Yield a finding if a mask is missing where masks are used, or has another aspect ratio."""
    if concept.masks == "off":
        return
    if item.mask is None:
        what = "no mask, so the image is trained whole"
        yield Finding("mask-missing", item.path, what, _masks_wanted(concept))
    elif item.mask != item.path:
        try:
            header = (headers.cached_header(item.mask) if headers else None) or read_header(
                item.mask
            )
        except ImageError:
            return  # the image is then skipped with a reason
        if not has_same_aspect(header, item):
            yield Finding(
                "mask-shape",
                item.mask,
                f"{header.width} × {header.height} pixels, another aspect ratio than its image"
                f" ({item.width} × {item.height}); it will be stretched",
                "Save the mask again at the size of its image",
                item.path,
            )


def no_mask_finding(concept: ConceptSettings) -> Finding:
    """Return the finding that no image of a folder has a mask."""
    what = "none of its images has a mask, so they are trained whole"
    return Finding("mask-missing", concept.folder, what, _masks_wanted(concept))


def _masks_wanted(concept: ConceptSettings) -> str:
    wanted = "Make the parts to ignore transparent"
    if concept.masks == "files" and concept.mask_folder is not None:
        wanted = f'Add a mask with its name to "{concept.mask_folder}"'
    elif concept.masks == "files":
        wanted = 'Add a mask with a name like "cat-masklabel.png" for "cat.jpg"'
    return f"{wanted}, unless the whole image is to be trained"


def _words(caption: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", caption))
