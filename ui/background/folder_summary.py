"""Summary of an image folder: the number of images and captions, and the first images."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.concepts.folder_listing import list_folder
from onetrainer.errors import UserError

if TYPE_CHECKING:
    from onetrainer.dataset.items import Item

_FIRST = 12
_MOST_PROMPTS, _MOST_CAPTIONS = 3, 1000


@dataclass(frozen=True)
class FolderSummary:
    """Contents of an image folder.

    Attributes:
        images: Number of usable images.
        captions: Number of usable images with a caption.
        first: Some of the usable images.
        unusable: Number of images that cannot be read or used.
        caption_error: What is wrong with the source of the captions.
        prompts: The first different captions as they are trained, as sample prompts.
    """

    exists: bool
    images: int = 0
    captions: int = 0
    first: list[Path] = field(default_factory=list)
    unusable: int = 0
    caption_error: str = ""
    prompts: tuple[str, ...] = ()


def summarize_folder(concept: ConceptSettings) -> FolderSummary:
    """Summarize a folder, which may be missing or unreadable."""
    # Imported late to keep the start of the window fast.
    from onetrainer.dataset.items import index_concept
    from onetrainer.images.header import recent_headers

    if not concept.folder.is_dir():
        return FolderSummary(exists=False)
    caption_error = ""
    try:
        try:
            index = index_concept(concept, headers=recent_headers())
        except UserError as error:
            if concept.caption_source != "list":
                raise
            caption_error = error.what
            concept = replace(concept, caption_source="text", caption_text="")
            index = index_concept(concept, headers=recent_headers())
    except UserError:  # no usable image, which the setting reports as a problem
        unusable = 0
        with suppress(UserError):  # too many other files
            unusable = len(list_folder(concept.folder, recursive=concept.recursive).images)
        return FolderSummary(True, unusable=unusable)
    first = [item.path for item in index.items[:_FIRST]]
    captions = len(index.items) - index.uncaptioned
    return FolderSummary(
        True,
        len(index.items),
        captions,
        first,
        len(index.skipped),
        caption_error,
        _prompts(index.items, concept),
    )


def _prompts(items: Sequence[Item], concept: ConceptSettings) -> tuple[str, ...]:
    """Return the first different captions with their trigger words, or these alone."""
    from onetrainer.dataset.caption_sampling import plain_caption

    captioned = (item for item in items if any(text.strip() for text in item.captions))
    texts = (plain_caption(item, concept) for item in captioned)
    found = islice(dict.fromkeys(islice(filter(str.strip, texts), _MOST_CAPTIONS)), _MOST_PROMPTS)
    trigger = concept.trigger.strip()
    return tuple(found) or ((trigger,) if trigger else ())
