"""A quick look at a folder of pictures: how many there are, and the first few. No Tk."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.concepts.folder_listing import list_images
from onetrainer.errors import UserError

_FIRST = 12


@dataclass(frozen=True)
class FolderSummary:
    """What was seen.

    pictures: how many can be trained with; captions: how many of these have one. unusable: how
    many pictures cannot be read, or are no use. first: some of the pictures that can be used.
    trouble: what is wrong with where captions are to come from.
    """

    exists: bool
    images: int = 0
    captions: int = 0
    first: list[Path] = field(default_factory=list)
    unusable: int = 0
    caption_error: str = ""


def summarize_folder(concept: ConceptSettings) -> FolderSummary:
    """Looks into a folder, and for its captions. It may be gone or locked, and none is required."""
    # Loaded late: it reads pictures, which a window that only opens does not need.
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
    except UserError:  # no picture can be used, which is said in words beside the setting
        return FolderSummary(
            True, unusable=len(list_images(concept.folder, recursive=concept.recursive))
        )
    first = [item.path for item in index.items[:_FIRST]]
    captions = len(index.items) - index.uncaptioned
    return FolderSummary(True, len(index.items), captions, first, len(index.skipped), caption_error)
