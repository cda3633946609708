"""What is to be said of one picture: its size, its detail, its captions, its mask."""

import re
from collections.abc import Iterator
from pathlib import Path

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.items import Header, HeaderCache, Item, has_same_aspect, is_uncaptioned
from onetrainer.dataset.transforms import plain_transform, upscale_factor
from onetrainer.images.detail import Detail
from onetrainer.images.findings import Finding
from onetrainer.images.header import read_header
from onetrainer.images.image_file import ImageError

MOST_ENLARGED = 1.25
"""Pictures that are enlarged more than so many times have less than two thirds of the pixels."""

LEAST_DETAIL = 0.5
"""Pictures whose finest detail at the size they are trained at is coarser are blurred. Measured:
sharp pictures have 1, those blurred by 0.7 pixels 0.53 at least, by 1.5 pixels 0.47 at most."""

TRACE = 13.0
"""Pictures with stronger traces were enlarged. Measured: 12 at most in pictures that were not."""

LEAST_STRONG = 0.8
"""Whether a picture was enlarged does not matter if its visible detail is finer."""

MOST_WORDS = 75
"""Words and signs of a caption that a text encoder reads in one piece: about one token each."""


def size_findings(item: Item, concept: ConceptSettings) -> Iterator[Finding]:
    """Whether a picture is too small for the size it is trained at."""
    factor = upscale_factor(item, plain_transform(item, concept))
    if factor <= MOST_ENLARGED:
        return
    bucket = plain_transform(item, concept).bucket
    yield Finding(
        "too-small",
        "warning",
        item.path,
        f"{item.width} × {item.height} pixels, enlarged {factor:.1f} times to"
        f" {bucket.width} × {bucket.height}",
        "Take a larger version of it, or let it be trained smaller (data.buckets.upscale_limit)",
    )


def detail_findings(item: Item, concept: ConceptSettings, detail: Detail) -> Iterator[Finding]:
    """Whether a picture has less detail than the size it is trained at would show."""
    # Of a picture that is trained smaller than it is, only what is left then counts.
    factor = min(1.0, upscale_factor(item, plain_transform(item, concept)))
    width, height = item.width, item.height
    blocks = detail.block > 1 and 1 / (detail.block * factor) <= LEAST_DETAIL
    if blocks or (detail.trace >= TRACE and detail.strong < LEAST_STRONG * factor):
        share = 1 / detail.block if blocks else detail.strong
        small = f"{round(width * share)} × {round(height * share)}"
        yield Finding(
            "upscaled",
            "warning",
            item.path,
            f"{width} × {height} pixels, but its detail would fit into about {small}",
            "Take the picture that it was made from, at its own size",
        )
    elif detail.finest < LEAST_DETAIL * factor:
        share = 100 * detail.finest / factor
        yield Finding(
            "blurred",
            "warning",
            item.path,
            f"nothing in it is sharp: its finest detail is {share:.0f} % as fine as the size it is"
            " trained at would show",
            "Take a sharper picture, or leave it out; keep it where softness is meant",
        )


def caption_findings(item: Item, concept: ConceptSettings, file: Path | None) -> Iterator[Finding]:
    """Whether a picture has captions of a usual length. file: its text file, if it has one."""
    longest = max(item.captions, key=_words)
    if is_uncaptioned(item, concept):
        yield _uncaptioned(item, concept, file)
    elif _words(longest) > MOST_WORDS:
        yield Finding(
            "caption-long",
            "note",
            item.path,
            f"its caption has about {_words(longest)} words and signs",
            f"Shorten it to {MOST_WORDS} if other programs are to read it whole; here nothing is"
            " cut off",
        )


def mask_findings(
    item: Item, concept: ConceptSettings, headers: HeaderCache | None
) -> Iterator[Finding]:
    """Whether a picture has a mask where masks are used, and of its own shape."""
    if concept.masks == "off":
        return
    if item.mask is None:
        what = "it has no mask, so all of it counts"
        yield Finding("mask-missing", "note", item.path, what, _masks_wanted(concept))
    elif item.mask != item.path:
        header = _header(item.mask, headers)
        if header is not None and not has_same_aspect(header, item):
            yield Finding(
                "mask-shape",
                "warning",
                item.mask,
                f"{header.width} × {header.height} pixels, of another shape than its picture"
                f" ({item.width} × {item.height}); it is stretched to it",
                "Save the mask again at the size of its picture",
                item.path,
            )


def no_mask_finding(concept: ConceptSettings) -> Finding:
    """That none of a folder's pictures has a mask, told once for all of them."""
    what = "none of its pictures has a mask, so all of each counts"
    return Finding("mask-missing", "note", concept.folder, what, _masks_wanted(concept))


def _masks_wanted(concept: ConceptSettings) -> str:
    wanted = (
        'Add a picture beside it that is named like "cat-masklabel.png" for "cat.jpg"'
        if concept.masks == "files"
        else "Make transparent what is not to count"
    )
    return f"{wanted}, or leave it if all of it is to count"


def _uncaptioned(item: Item, concept: ConceptSettings, file: Path | None) -> Finding:
    if file is not None:
        return Finding(
            "caption-empty",
            "warning",
            item.path,
            f"its caption {file.name} is empty",
            "Write what the picture shows into the text file beside it",
            file,
        )
    ways = {
        "files": "Write a text file of its name beside it, which ends in .txt",
        "names": "Name the file after what it shows",
        "folders": "Put it into a folder that is named after what it shows",
        "text": "Write the text that is for all (caption_text)",
        "list": "Write a line for it into the list of captions (caption_list)",
    }
    return Finding(
        "caption-missing",
        "warning",
        item.path,
        "it has no caption, so it is trained with trigger words alone"
        if concept.trigger.strip()
        else "it has no caption, so it is trained with an empty one",
        ways[concept.caption_source],
    )


def _words(caption: str) -> int:
    return len(re.findall(r"\w+|[^\w\s]", caption))


def _header(path: Path, headers: HeaderCache | None) -> Header | None:
    """None if it cannot be read: then the index has left its picture out and said why."""
    try:
        return (headers.known(path) if headers else None) or read_header(path)
    except ImageError:
        return None
