"""Every picture of a run, listed: to learn, to keep what is known, and to validate with."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count as numbers
from pathlib import Path

from onetrainer.concepts.concepts import ConceptSettings, concepts_of
from onetrainer.config.objectives.reconstruction import Reconstruction
from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.run.validation import Validation
from onetrainer.config.train import TrainConfig, uses_images
from onetrainer.dataset.items import (
    EXAMPLES,
    DatasetIndex,
    HeaderCache,
    Item,
    Skipped,
    index_concept,
    is_uncaptioned,
)
from onetrainer.errors import UserError

GroupSimilar = Callable[[Sequence[Item]], Sequence[int]]
"""Gives each picture the number of its group, of those that look nearly the same."""


@dataclass(frozen=True)
class Dataset:
    """Every picture of a run.

    items: to learn and to keep, concept after concept. held_out: those that are measured; None if
    nothing is. uncaptioned, held_out_uncaptioned: how many of each have no caption. orphans: files
    that belong to no picture.
    """

    concepts: tuple[ConceptSettings, ...]
    items: tuple[Item, ...]
    validation: tuple[Item, ...] | None = None
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    orphans: tuple[Path, ...] = ()

    @property
    def uncaptioned(self) -> int:
        """How many of those to learn and to keep have no caption."""
        return self._uncaptioned(self.items)

    @property
    def validation_uncaptioned(self) -> int:
        """How many of those that are measured have no caption."""
        return self._uncaptioned(self.validation or ())

    def _uncaptioned(self, items: Iterable[Item]) -> int:
        return sum(is_uncaptioned(item, self.concepts[item.concept]) for item in items)

    def concept_of(self, item: Item) -> ConceptSettings:
        """What counts for an item."""
        return self.concepts[item.concept]

    def name_of(self, item: Item) -> str:
        """What a held-out picture is called in a run: its path below its folder.

        Where several folders have one of that name, the concept's name comes first.
        """
        return self._names[item.concept, item.path]

    @cached_property
    def _names(self) -> dict[tuple[int, Path], str]:
        items = self.validation or ()
        often = Counter(item.name for item in items)
        used_names: set[str] = set()
        names = {}
        for item in items:
            name = item.name
            if often[name] > 1:
                name = f"{self.concept_of(item).name}/{name}"
            names[item.concept, item.path] = unique = _unlike(name, used_names)
            used_names.add(unique)
        return names


def uses_images_only(config: TrainConfig) -> bool:
    """Whether captions, masks and class pictures play no part: so a VAE learns."""
    return isinstance(config.objective, Reconstruction)


def reads_image_folders(config: TrainConfig) -> bool:
    """Whether a run looks into its folders of pictures at all, be it for the captions alone."""
    match config.objective:
        case AlignProp(prompts=prompts) if prompts.source == "captions":
            return True
        case _:
            return uses_images(config)


def used_concepts(config: TrainConfig) -> tuple[ConceptSettings, ...]:
    """The concepts that a run looks into: those to validate with only where it validates."""
    every = concepts_of(config)
    return tuple(each for each in every if config.validation.use or each.role != "validation")


def read_dataset(
    config: TrainConfig,
    *,
    headers: HeaderCache | None = None,
    group_similar: GroupSimilar | None = None,
) -> Dataset:
    """Lists every picture of a config, reading headers only, and holds some out of learning.

    headers: a memory of headers; None reads them all. similar: what finds pictures that look nearly
    the same, of which a share holds out all or none; None takes every picture for itself.
    Raises UserError where there is nothing to learn, and as `index_concept` does.
    """
    concepts = used_concepts(config)
    if not any(concept.role == "train" for concept in concepts):
        raise UserError(
            "no folder of pictures to learn is chosen",
            "A folder of pictures is needed",
            "Choose one (data.folder), or add one that is used to learn (data.concepts)",
        )
    indexes = [
        index_concept(concept, number=number, headers=headers)
        for number, concept in enumerate(concepts)
    ]
    return split(config, concepts, indexes, group_similar=group_similar)


def split(
    config: TrainConfig,
    concepts: Sequence[ConceptSettings],
    indexes: Sequence[DatasetIndex],
    *,
    group_similar: GroupSimilar | None = None,
) -> Dataset:
    """The pictures of several concepts as one, with those held out of learning on their own.

    indexes: what each of the concepts holds. Of a share, a picture's turn comes from its name, that
    of its folder and the seed alone, so that another picture more or less moves at most one from
    one side to the other. Of folders, their pictures are not learned where they are among those to
    learn as well, as in a folder within their folder. Raises UserError where nothing is left to
    learn.
    """
    section = config.validation
    every = [item for index in indexes for item in index.items]
    trained = [item for item in every if item.role == "train"]
    apart = [item for item in every if item.role == "validation"]
    measured: tuple[Item, ...] | None = None
    if section.use and apart:
        gone = _of_same_files(trained, apart)
        ordered = sorted(apart, key=lambda item: _split_key(item, section, concepts))
        chosen = set(ordered[: section.max_images or len(ordered)])
        measured = tuple(item for item in apart if item in chosen)
    elif section.use:
        looks = group_similar if section.keep_similar else None
        groups = looks(trained) if looks is not None else range(len(trained))
        groups = _with_same_files(trained, groups)
        gone = select_validation(trained, section, groups, concepts=concepts)
        measured = tuple(gone)
    else:
        gone = []
    if trained and len(gone) == len(trained):
        raise _nothing_left(len(gone), has_folder=bool(apart))
    held = real_paths(measured or ())
    kept = [item for item in every if item.is_prior]
    # The model is not to be trained on what is measured, be it to keep what it shows.
    left_out = {*gone, *(item for item, place in _with_places(kept) if place in held)}
    return Dataset(
        tuple(concepts),
        tuple(item for item in every if item.role != "validation" and item not in left_out),
        measured,
        tuple(each for index in indexes for each in index.skipped),
        tuple(_notes(concepts, indexes)),
        tuple(path for index in indexes for path in index.orphans),
    )


def without_damaged(dataset: Dataset, damaged: Sequence[Skipped]) -> Dataset:
    """The same where some of its pictures cannot be read, as a run leaves them out in the end.

    They have taken their turn at being held out by then. Raises UserError if none of a kind is left
    that there was.
    """
    gone = {one.path for one in damaged}
    kept, held = _apart(dataset.items, gone), _apart(dataset.validation or (), gone)
    priors = {item.is_prior for item in dataset.items}
    is_empty = priors != {item.is_prior for item in kept} or bool(dataset.validation and not held)
    if is_empty:
        some = "; ".join(map(str, damaged[:EXAMPLES]))
        raise UserError(
            f"of the pictures of a kind none can be read ({some})",
            "At least one usable picture is needed to learn, to keep and to measure",
            "Replace or repair them",
        )
    return replace(
        dataset,
        items=kept,
        validation=None if dataset.validation is None else held,
        skipped=(*dataset.skipped, *damaged),
    )


def _apart(items: Iterable[Item], gone: Container[Path]) -> tuple[Item, ...]:
    return tuple(item for item in items if item.path not in gone)


def _notes(concepts: Sequence[ConceptSettings], indexes: Sequence[DatasetIndex]) -> Iterator[str]:
    """What is worth telling of the folders, each by its name where there are several."""
    calls = Counter(concept.name for concept in concepts)
    for concept, index in zip(concepts, indexes, strict=True):
        name = concept.name if calls[concept.name] == 1 else str(concept.folder)
        for note in index.notes:
            yield note if len(concepts) == 1 else f"{name}: {note}"


def select_validation(
    items: Sequence[Item],
    section: Validation,
    groups: Sequence[int],
    *,
    concepts: Sequence[ConceptSettings],
) -> list[Item]:
    """The items that a share holds out, in their order. Raises UserError if all look the same.

    groups: the number of each item's group, of which all or none is held out; it takes its turn
    with the first of its pictures. A group that would be too many waits; where all of them are,
    the smallest is held out. concepts: by their numbers, as items have them.
    """
    if len(items) < 2:
        return list(items)
    count = validation_count(section, len(items))
    members: dict[int, list[int]] = {}
    for place, group in enumerate(groups):
        members.setdefault(group, []).append(place)
    ordered = sorted(members.values(), key=lambda at: _split_key(items[at[0]], section, concepts))
    held: set[int] = set()
    for places in ordered:
        if len(held) + len(places) <= count:
            held.update(places)
    if not held:
        if len(ordered) == 1:
            raise _all_alike(len(items))
        smallest = min(ordered, key=len)
        held.update(smallest)
    return [item for place, item in enumerate(items) if place in held]


def validation_count(section: Validation, images: int) -> int:
    """How many of so many pictures are held out by share: at least one, and at most half.

    Those beyond "At most" are learned: held out without being measured they would be wasted.
    """
    count = max(1, min(round(section.split * images), images // 2))
    return min(count, section.max_images) if section.max_images else count


def real_paths(items: Iterable[Item]) -> dict[str, Item]:
    """Where the files of items really lie, through all links."""
    return {place: item for item, place in _with_places(items)}


def _with_places(items: Iterable[Item]) -> list[tuple[Item, str]]:
    """Each item with the place of its file; folders are followed once for all of their files."""
    folders: dict[str, str] = {}
    found = []
    for item in items:
        head, _, name = str(item.path).rpartition(os.sep)
        if head not in folders:
            folders[head] = os.path.realpath(head or os.sep)
        place = os.path.join(folders[head], name)  # noqa: PTH118 of text, for speed
        found.append((item, os.path.realpath(place) if os.path.islink(place) else place))  # noqa: PTH114
    return found


def _of_same_files(items: Sequence[Item], others: Sequence[Item]) -> list[Item]:
    """The items whose file is that of one of the others, in whatever folder it is found."""
    places = real_paths(others)
    return [item for item, place in _with_places(items) if place in places]


def _with_same_files(items: Sequence[Item], groups: Sequence[int]) -> list[int]:
    """The groups, with a file that is there twice in the group where it is found first.

    In another folder, or by a link beside it.
    """
    first: dict[str, int] = {}
    return [groups[first.setdefault(file, at)] for at, (_, file) in enumerate(_with_places(items))]


def _split_key(item: Item, section: Validation, concepts: Sequence[ConceptSettings]) -> bytes:
    """Where a picture stands in the order in which they are held out."""
    name, concept = item.name, concepts[item.concept]
    # So that of twenty folders 1.png is not held out of all or none.
    if section.split_by == "folders" and concept.identity:
        name = f"{concept.identity}/{name}"
    return hashlib.sha256(f"{section.seed}:held-out:{name}".encode()).digest()


def _unlike(name: str, used_names: set[str]) -> str:
    if name not in used_names:
        return name
    return next(other for n in numbers(2) if (other := f"{name} ({n})") not in used_names)


def _nothing_left(count: int, *, has_folder: bool) -> UserError:
    return UserError(
        f"all of the pictures ({count}) are held out, so none is left to learn"
        if count > 1
        else "the only picture is held out, so none is left to learn",
        "Expected pictures to learn beside those that are held out",
        "Choose another folder of held-out pictures (validation.folder)"
        if has_folder
        else "Add pictures, choose a folder of held-out ones (validation.folder), or turn off"
        " validation.use",
    )


def _all_alike(count: int) -> UserError:
    return UserError(
        f"all {count} pictures look nearly the same, so none can be held out without its likes",
        "Expected some that look different",
        "Add pictures, choose a folder of held-out ones (validation.folder), or turn off"
        " validation.keep_similar",
    )
