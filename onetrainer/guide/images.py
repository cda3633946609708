"""What an image folder holds: how many images and captions, and the problems that matter."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.concepts.folder_listing import FolderListing, list_folder
from onetrainer.dataset.items import DatasetIndex, Item, index_concept
from onetrainer.errors import UserError, some_of
from onetrainer.guide.prompts import first_captioned
from onetrainer.images.image_index import recent_facts

FEW = 5
"""Fewer images teach little more than themselves."""
_SHOWN, _NAMED = 12, 2
_CHOOSE = "choose a folder of images"


@dataclass(frozen=True)
class ImageFolder:
    """What is known about a folder so far.

    Attributes:
        concept: The folder as the settings of a run name it.
        images: Usable images, or all listed ones until every image is looked at.
        looked_at: Images that were looked at so far; all of them in the end.
        captions: Images with a caption.
        first: Some of the images, to show.
        captioned: The first images with different captions.
        problem: Why it cannot be trained on, in one sentence; "" if it can.
        warnings: What else matters, a sentence each.
    """

    concept: ConceptSettings
    images: int = 0
    looked_at: int = 0
    captions: int = 0
    first: tuple[Path, ...] = ()
    captioned: tuple[Item, ...] = ()
    problem: str = ""
    warnings: tuple[str, ...] = ()
    is_complete: bool = False


def look_at_images(
    folder: Path, report: Callable[[ImageFolder], None], check: Callable[[], None]
) -> ImageFolder:
    """Look at every image of a folder, in its subfolders if it has none itself.

    report: Called with what is known so far. check: Called often; what it raises ends the look.
    """
    concept = ConceptSettings("data.folder", folder.name, folder, require_captions=False)
    try:
        concept, listing = _listed(concept)
        usable = [image.path for image in listing.images if not image.reason]
        known = ImageFolder(concept, len(usable), first=tuple(usable[:_SHOWN]))
        report(known)

        def watch(done: int, _: int) -> None:
            check()
            report(replace(known, looked_at=done))

        index = index_concept(concept, headers=recent_facts(), watch=watch)
    except UserError as error:
        return ImageFolder(concept, problem=f"{error.what}; {_CHOOSE}.", is_complete=True)
    except OSError as error:  # a name that is too long
        problem = f"{folder}: this cannot be read ({error.strerror}); {_CHOOSE}."
        return ImageFolder(concept, problem=problem, is_complete=True)
    return _known(concept, index)


def _listed(concept: ConceptSettings) -> tuple[ConceptSettings, FolderListing]:
    """List the images of a folder; with its subfolders if all of them are there."""
    listing = list_folder(concept.folder, recursive=False)
    if listing.images or not listing.inner:
        return concept, listing
    inner = list_folder(concept.folder, recursive=True)
    return (replace(concept, recursive=True), inner) if inner.images else (concept, listing)


def _known(concept: ConceptSettings, index: DatasetIndex) -> ImageFolder:
    items = index.items
    return ImageFolder(
        concept,
        len(items),
        len(items),
        len(items) - index.uncaptioned,
        tuple(item.path for item in items[:_SHOWN]),
        first_captioned(items),
        warnings=tuple(_warnings(index)),
        is_complete=True,
    )


def _warnings(index: DatasetIndex) -> list[str]:
    found = []
    if index.skipped:
        names = some_of([str(each) for each in index.skipped], _NAMED)
        count = len(index.skipped)
        found.append(f"{count} {'image' if count == 1 else 'images'} cannot be used: {names}.")
    if index.uncaptioned and index.missed:
        found.append(f"{index.missed[:1].upper()}{index.missed[1:]}.")
    if len(index.items) < FEW:
        found.append("These are few images: 10 to 40 of a person or a thing are usual.")
    return found
