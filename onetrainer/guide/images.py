"""What an image folder holds: how many images and captions, and the problems that matter."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.concepts.folder_listing import FolderListing, list_folder
from onetrainer.dataset.items import DatasetIndex, Item, index_concept, no_images_error
from onetrainer.dataset.pixel_facts import PixelFacts
from onetrainer.errors import UserError, sentence, some_of
from onetrainer.guide.prompts import first_captioned
from onetrainer.images.findings import SAID_OTHERWISE, group_findings
from onetrainer.images.image_index import recent_facts

FEW = 5
"""Fewer images teach little more than themselves."""
_SHOWN, _NAMED = 12, 2
_MANY = 200
"""More take the whole length of every preset, which a broken image then does not change."""
_REPORTS = 50  # while images are decoded
_THREADS = 2  # that decode them, so that the window keeps the others
_CHOOSE = "choose a folder of images"


@dataclass(frozen=True)
class ImageFolder:
    """What is known about a folder so far.

    Attributes:
        concept: The folder as the settings of a run name it.
        images: Usable images as far as is known; all listed ones at first.
        looked_at: Images whose header and caption were read so far; all of them in the end.
        captions: Images with a caption.
        first: Some of the images, to show.
        captioned: The first images with different captions.
        problem: Why it cannot be trained on, in one sentence; "" if it can.
        warnings: What else matters, a sentence each.
        is_complete: Whether headers and captions are read.
        decoded: Images that were decoded so far, which shows whether training can use them.
        is_checked: Whether none is left to decode, so that the run counts as many.
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
    decoded: int = field(default=0, compare=False)
    is_checked: bool = field(default=False, compare=False)

    @property
    def is_counted(self) -> bool:
        """Whether settings can be made of it: each of few images has its share of the steps."""
        return self.is_checked or (self.is_complete and self.images > _MANY)


def look_at_images(
    folder: Path, report: Callable[[ImageFolder], None], check: Callable[[], None]
) -> ImageFolder:
    """Read and decode every image of a folder, in its subfolders if it has none itself.

    report: Called with what is known so far. check: Called often; what it raises ends the look.
    """
    concept = _concept_of(folder)
    try:
        concept, listing = _listed(concept)
        usable = [image.path for image in listing.images if not image.reason]
        known = ImageFolder(concept, len(usable), first=tuple(usable[:_SHOWN]))
        report(known)

        def watch(done: int, _: int) -> None:
            check()
            report(replace(known, looked_at=done))

        index = index_concept(concept, headers=recent_facts(), watch=watch)
        index = _decoded(concept, index, report, check)
    except UserError as error:
        return unusable(folder, str(error.what))
    except OSError as error:  # a name that is too long
        return unusable(folder, f"{folder}: this cannot be read ({error.strerror})")
    return replace(_known(concept, index), is_checked=True)


def unusable(folder: Path, why: str) -> ImageFolder:
    """Return a folder that cannot be trained on. why: The reason, without a full stop."""
    why = f"{why}; {_CHOOSE}."
    return ImageFolder(_concept_of(folder), problem=why, is_complete=True, is_checked=True)


def _concept_of(folder: Path) -> ConceptSettings:
    return ConceptSettings("data.folder", folder.name, folder, require_captions=False)


def _decoded(
    concept: ConceptSettings,
    index: DatasetIndex,
    report: Callable[[ImageFolder], None],
    check: Callable[[], None],
) -> DatasetIndex:
    """Return what of a folder training can use. Raises UserError if it is nothing."""
    known = _known(concept, index)
    report(known)

    def progress(done: int, total: int) -> None:
        check()
        if done % max(1, total // _REPORTS) == 0:
            # Those that are known from an earlier look are not among the total.
            report(replace(known, decoded=max(0, known.images - (total - done))))

    facts = PixelFacts(recent_facts())
    facts.examine(index.items, progress, threads=_THREADS)
    sound = facts.apply_to(index, concept)
    if not sound.items:
        raise no_images_error(concept.folder, sound.skipped, recursive=concept.recursive)
    return sound


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
        warnings=tuple(_warnings(index, concept.folder)),
        is_complete=True,
    )


def _warnings(index: DatasetIndex, folder: Path) -> list[str]:
    found = []
    if index.skipped:
        names = some_of([each.described for each in index.skipped], _NAMED)
        count = len(index.skipped)
        found.append(f"{count} {'image' if count == 1 else 'images'} cannot be used: {names}.")
    if index.uncaptioned and index.missed:
        found.append(f"{index.missed[:1].upper()}{index.missed[1:]}.")
    for group in group_findings(index.findings, folder):
        if group.kind not in SAID_OTHERWISE:
            text = sentence(str(group))
            found.append(f"{text[:1].upper()}{text[1:]}")
    if len(index.items) < FEW:
        found.append("These are few images: 10 to 40 of a person or a thing are usual.")
    return found
