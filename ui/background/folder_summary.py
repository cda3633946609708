"""Summary of an image folder: the number of images and captions, and the first images."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.concepts.folder_listing import list_folder
from onetrainer.errors import UserError

_FIRST = 12


@dataclass(frozen=True)
class FolderSummary:
    """Contents of an image folder.

    Attributes:
        images: Number of usable images.
        captions: Number of usable images with a caption.
        first: Some of the usable images.
        unusable: Number of images that cannot be read or used.
        caption_error: What is wrong with the source of the captions.
    """

    exists: bool
    images: int = 0
    captions: int = 0
    first: list[Path] = field(default_factory=list)
    unusable: int = 0
    caption_error: str = ""


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
    return FolderSummary(True, len(index.items), captions, first, len(index.skipped), caption_error)
