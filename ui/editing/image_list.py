"""Reading of the images of all folders, with what of them can be edited."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from onetrainer.cache.run_entries import open_image_index
from onetrainer.captions.caption_file import CaptionError, read_captions
from onetrainer.captions.tag_edits import TagFormat, tag_format
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.concepts.folder_listing import (
    MASK_SUFFIX,
    NAMELESS,
    FolderImage,
    list_folder,
    new_mask_path,
    normalize_name,
    stem,
)
from onetrainer.concepts.mask_folder import MaskFolder
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.batch_plan import all_buckets
from onetrainer.dataset.dataset import reads_image_folders, used_concepts
from onetrainer.dataset.items import DatasetIndex, Item, index_concept
from onetrainer.errors import UserError
from onetrainer.images.image_index import recent_facts
from ui.background.background_query import CancelToken
from ui.background.collection import without_collection
from ui.editing.image_rows import ImageRow, Listed, Rows

DEPENDS_ON = ("data", "model.family", "validation", "training.seed", "objective", "method.kind")
"""Settings that the list depends on; output.folder only decides what is known already."""

_SOURCES = {
    "list": "Its caption is in a caption list; edit that file, or choose caption files.",
    "names": "Its caption is its file name; choose caption files to write one.",
    "folders": "Its caption is the name of its folder; choose caption files to write one.",
    "text": "Its folder has one caption for all images; choose caption files to write one.",
}
"""Why captions of other sources cannot be edited here."""


@dataclass
class ImageList:
    """All images. is_complete: Whether they have been read, and not only listed."""

    concepts: tuple[ConceptSettings, ...] = ()
    rows: Rows = field(default_factory=lambda: Rows(()))
    is_complete: bool = True
    formats: tuple[TagFormat, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.formats = tuple(tag_format(concept.captions) for concept in self.concepts)

    def concept_of(self, row: ImageRow) -> ConceptSettings:
        """Return the settings of an image's folder."""
        return self.concepts[row.concept]

    def format_of(self, row: ImageRow) -> TagFormat:
        """Return how tags are separated in an image's folder."""
        return self.formats[row.concept]

    def caption_locked(self, row: ImageRow) -> str:
        """Return why the caption of an image cannot be edited; "" if it can."""
        if row.reason == NAMELESS:
            return row.reason
        return _SOURCES.get(self.concept_of(row).caption_source, "")

    def mask_locked(self, row: ImageRow) -> str:
        """Return why the mask of an image cannot be painted; "" if it can."""
        if not row.is_read:
            return row.reason or "Its size is not known yet."
        if self.concept_of(row).masks == "alpha":
            return "Its mask is its own transparency, and images are never changed."
        if self.concept_of(row).mask_folder is not None and self.rows.has_file(self.mask_path(row)):
            return (
                "Its mask would replace an image: choose a folder for masks (Data › Mask folder)."
            )
        return ""

    def mask_path(self, row: ImageRow) -> Path:
        """Return the mask file of an image, which may not exist yet."""
        image = FolderImage(row.path, row.name)
        return row.mask or new_mask_path(image, self.concept_of(row).mask_folder)

    def updated(self, paths: Iterable[Path]) -> dict[int, ImageRow]:
        """Return the rows anew whose captions or masks are among changed files; reads these."""
        # By folder without links, as in the history; links to single files are known as given.
        changed, real = set(paths), cache(Path.resolve)
        stems = {stem(normalize_name(path.name)) for path in changed}
        stems |= {each.removesuffix(stem(MASK_SUFFIX)) for each in stems}

        def is_changed(path: Path) -> bool:
            return path in changed or real(path.parent) / path.name in changed

        return {
            index: self._reread(row)
            for index, row in enumerate(self.rows)
            if stem(row.name.rpartition("/")[2]) in stems
            and (is_changed(row.caption_path) or is_changed(self.mask_path(row)))
        }

    def _reread(self, row: ImageRow) -> ImageRow:
        concept, caption, mask = self.concept_of(row), row.caption_path, self.mask_path(row)
        has_caption, has_mask = caption.exists(), mask.exists()
        captions = row.captions
        if row.is_read and concept.caption_source == "files":
            with suppress(CaptionError):  # no text any more: the next reading of all says so
                lines = concept.captions.lines
                captions = read_captions(caption, lines=lines) if has_caption else ("",)
        own = mask if has_mask else None
        item_mask = row.item.mask if row.item is not None else None
        return row.changed(
            caption if has_caption else None,
            own,
            captions,
            own if concept.masks == "files" else item_mask,
        )


def read_images(config: TrainConfig, token: CancelToken[ImageList]) -> ImageList:
    """List the images of all folders at once, then read their captions and sizes.

    Raises:
        UserError: There is no image.
        QueryCancelledError: The query was canceled.
    """
    with without_collection():
        return _read(config, token)


def _read(config: TrainConfig, token: CancelToken[ImageList]) -> ImageList:
    if not reads_image_folders(config):
        raise UserError("this run trains on prompts alone and uses no images")
    # Images without captions are what a person comes here for.
    data = config.data.model_copy(update={"require_captions": False})
    concepts = used_concepts(config.model_copy(update={"data": data}))
    if not concepts:
        raise UserError("no image folder is selected")
    listings, indexed = [], []
    for concept in concepts:
        token.raise_if_cancelled()
        images, as_indexed = _list(concept)
        listings.append(images)
        indexed.append(as_indexed)
    listed = list(_listed(listings, {}))
    token.answer(ImageList(concepts, Rows(listed), is_complete=False))
    known: dict[tuple[int, Path], Item | str] = {}
    errors = []
    done, total = 0, len(listed)

    def watch(count: int, _: int) -> None:
        token.raise_if_cancelled()
        token.progress(done + count, total)

    with open_image_index(config) as index:
        for number, concept in enumerate(indexed):
            try:
                found = index_concept(
                    concept, number=number, headers=index or recent_facts(), watch=watch
                )
            except UserError as error:
                errors.append(error)
                found = DatasetIndex((), (), 0)
            known |= {(number, item.path): item for item in found.items}
            known |= {(number, each.path): each.reason for each in found.skipped}
            done += len(listings[number])
    if errors and not any(isinstance(each, Item) for each in known.values()):
        raise errors[0]
    listed = _with_buckets(list(_listed(listings, known)), concepts)
    return ImageList(concepts, Rows(listed))


def _list(concept: ConceptSettings) -> tuple[Sequence[FolderImage], ConceptSettings]:
    """Return a folder's images with the masks that training reads, and how to read the images.

    A folder of masks that is still empty, which training refuses, is not read: its first mask is
    painted here.
    """
    images = list_folder(concept.folder, recursive=concept.recursive).images
    if concept.mask_folder is None:
        return images, concept
    masks = MaskFolder(concept.mask_folder, recursive=concept.recursive)
    if masks.is_empty and concept.masks == "files":
        concept = replace(concept, masks="off")
    return [image._replace(mask=masks.mask_of(image)) for image in images], concept


def _listed(
    listings: Sequence[Sequence[FolderImage]], known: Mapping[tuple[int, Path], Item | str]
) -> Iterator[Listed]:
    for number, images in enumerate(listings):
        for image in images:
            yield Listed(image, number, known.get((number, image.path)))


def _with_buckets(listed: Sequence[Listed], concepts: Sequence[ConceptSettings]) -> list[Listed]:
    items = [each.found for each in listed if isinstance(each.found, Item)]
    buckets = iter(all_buckets(items, concepts))
    return [
        each._replace(buckets=next(buckets)) if isinstance(each.found, Item) else each
        for each in listed
    ]
