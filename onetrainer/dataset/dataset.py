"""The images of a run: for training, for prior preservation and for validation."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count
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
    Watch,
    index_concept,
    is_uncaptioned,
)
from onetrainer.errors import UserError
from onetrainer.images.findings import SAID_OTHERWISE, group_findings

GroupSimilar = Callable[[Sequence[Item]], Sequence[int]]
"""Returns for each image the number of its group of near-duplicates."""


@dataclass(frozen=True)
class Dataset:
    """All images of a run.

    items: training and prior images, concept after concept. validation: None without validation.
    notes: what is wrong with the files, beside those in `skipped` and captions that are missing.
    unexamined: number of images whose pixels nobody has decoded yet, so that they may be damaged.
    held_out: number of images that the validation split keeps from training, measured or not.
    """

    concepts: tuple[ConceptSettings, ...]
    items: Sequence[Item]
    validation: Sequence[Item] | None = None
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    unexamined: int = 0
    held_out: int = 0

    @property
    def uncaptioned(self) -> int:
        """Number of training and prior images without a caption."""
        return sum(is_uncaptioned(item, self.concepts[item.concept]) for item in self.items)

    def concept_of(self, item: Item) -> ConceptSettings:
        """Return the settings of an item's concept."""
        return self.concepts[item.concept]

    def name_of(self, item: Item) -> str:
        """Return the unique name of a validation image in a run: its path below its folder.

        If several folders have an image of that name, the concept's name is prepended.
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
            spelled = chain([name], (f"{name} ({number})" for number in count(2)))
            unique = next(each for each in spelled if each not in used_names)
            names[item.concept, item.path] = unique
            used_names.add(unique)
        return names


def uses_images_only(config: TrainConfig) -> bool:
    """Return whether captions, masks and class images are ignored, as in VAE training."""
    return isinstance(config.objective, Reconstruction)


def reads_image_folders(config: TrainConfig) -> bool:
    """Return whether a run reads its image folders, even if only for their captions."""
    objective = config.objective
    reads_captions = isinstance(objective, AlignProp) and objective.prompts.source == "captions"
    return reads_captions or uses_images(config)


def used_concepts(config: TrainConfig) -> tuple[ConceptSettings, ...]:
    """Return the concepts that a run reads; validation folders only with validation on."""
    is_used = config.validation.use
    return tuple(each for each in concepts_of(config) if is_used or each.role != "validation")


def read_dataset(
    config: TrainConfig,
    *,
    headers: HeaderCache | None = None,
    group_similar: GroupSimilar | None = None,
    watch: Watch | None = None,
) -> Dataset:
    """List all images of a config, reading headers only, and apply the validation split.

    headers: None reads them all. group_similar: finds near-duplicates, which the validation split
    keeps together; None treats every image as different. watch: see `index_concept`, also for what
    is raised. Raises UserError if there are no training images.
    """
    concepts = used_concepts(config)
    if not any(concept.role == "train" for concept in concepts):
        raise UserError(
            "no image folder for training is chosen",
            "An image folder is needed",
            "Choose one (data.folder), or add one with the role Train (data.concepts)",
        )
    indexes = [
        index_concept(concept, number=number, headers=headers, watch=watch)
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
    """Combine the images of several concepts and split off the validation images.

    The side of an image in a validation split depends on its name, its concept's name and the seed
    alone: see `select_validation`. Images of validation folders are not trained even if a training
    folder contains them too.

    group_similar: see `read_dataset`. Raises UserError if no images are left for training.
    """
    section = config.validation
    items = [item for index in indexes for item in index.items]
    trained = [item for item in items if item.role == "train"]
    validation_items = [item for item in items if item.role == "validation"]
    validation: tuple[Item, ...] | None = None
    if section.use and validation_items:
        excluded = _of_same_files(trained, validation_items)
        validation = _measured(validation_items, section, concepts)
    elif section.use:
        grouping = group_similar if section.keep_similar else None
        groups = grouping(trained) if grouping is not None else range(len(trained))
        # Duplicates and links are in the group of their first occurrence.
        first: dict[str, int] = {}
        places = enumerate(_with_places(trained))
        groups = [groups[first.setdefault(file, at)] for at, (_, file) in places]
        excluded = select_validation(trained, section, groups, concepts=concepts)
        validation = _measured(excluded, section, concepts)
    else:
        excluded = []
    if trained and len(excluded) == len(trained):
        some = f"all {len(excluded)} images are" if len(excluded) > 1 else "the only image is"
        raise UserError(
            f"{some} used for validation, so none is left for training",
            "Expected training images besides the validation images",
            "Choose another folder of validation images (validation.folder)"
            if validation_items
            else "Add images, choose a folder of validation images (validation.folder), or turn off"
            " validation.use",
        )
    # Validation images must not be trained on, not even as prior images.
    priors = [item for item in items if item.is_prior]
    left_out = {*excluded, *_of_same_files(priors, validation or ())}
    return Dataset(
        tuple(concepts),
        tuple(item for item in items if item.role != "validation" and item not in left_out),
        validation,
        tuple(skipped_item for index in indexes for skipped_item in index.skipped),
        tuple(_notes(concepts, indexes)),
        held_out=len(excluded),
    )


def without_damaged(dataset: Dataset, damaged: Sequence[Skipped]) -> Dataset:
    """Return the dataset without images that cannot be decoded.

    The validation split stays as it was.

    Raises UserError if no training, prior or validation images are left where there were some.
    """
    paths = {skipped.path for skipped in damaged}
    kept = tuple(item for item in dataset.items if item.path not in paths)
    selected = tuple(item for item in dataset.validation or () if item.path not in paths)
    is_empty = {item.is_prior for item in kept} != {item.is_prior for item in dataset.items}
    is_empty = is_empty or bool(dataset.validation and not selected)
    if is_empty:
        some = "; ".join(map(str, damaged[:EXAMPLES]))
        raise UserError(
            f"all training, class or validation images are damaged ({some})",
            "At least one usable image of each is needed",
            "Replace or repair them",
        )
    return replace(
        dataset,
        items=kept,
        validation=None if dataset.validation is None else selected,
        skipped=(*dataset.skipped, *damaged),
    )


def _notes(concepts: Sequence[ConceptSettings], indexes: Sequence[DatasetIndex]) -> Iterator[str]:
    """Yield the findings about folders, each with the folder's name if there are several."""
    calls = Counter(concept.name for concept in concepts)
    for concept, index in zip(concepts, indexes, strict=True):
        name = concept.name if calls[concept.name] == 1 else str(concept.folder)
        for group in group_findings(index.findings, concept.folder):
            if group.kind not in SAID_OTHERWISE:
                yield f"{group}" if len(concepts) == 1 else f"{name}: {group}"


def select_validation(
    items: Sequence[Item],
    section: Validation,
    groups: Sequence[int],
    *,
    concepts: Sequence[ConceptSettings],
) -> list[Item]:
    """Return the items that the validation split takes, in dataset order.

    An image is taken if its hash lies below the split, whatever other images there are; the one
    with the lowest if there is none. Files before version 9 take an exact number instead, in the
    order of hashes, so that one more image may move another one.

    groups: number of each item's group of near-duplicates, of which all or none are taken. A group
    has the lowest hash of its images, and in the order that of its first one. Groups that would
    exceed half of the images, or the number, are skipped; if all of them would, the smallest one is
    taken. Raises UserError if all images are near-duplicates.
    """
    if len(items) < 2:
        return list(items)
    members: dict[int, list[int]] = {}
    for position, group in enumerate(groups):
        members.setdefault(group, []).append(position)
    hashes = [_split_key(item, section, concepts) for item in items]
    is_single = section.split_by == "images"
    keys = {g: min(hashes[n] for n in (at if is_single else at[:1])) for g, at in members.items()}
    ordered = [members[group] for group in sorted(members, key=keys.__getitem__)]
    most = validation_count(section, len(items))
    if is_single:
        most, bound = len(items) // 2, int(section.split * 2**64).to_bytes(8, "big")
        ordered = ordered[: max(1, sum(key < bound for key in keys.values()))]
    selected: set[int] = set()
    for places in ordered:
        if len(selected) + len(places) <= most:
            selected.update(places)
    if not selected:
        if len(members) == 1:
            raise UserError(
                f"all {len(items)} images look nearly the same, so they cannot be split",
                "Expected some that look different",
                "Add images, choose a folder of validation images (validation.folder), or turn off"
                " validation.keep_similar",
            )
        smallest = min(members.values(), key=len)
        selected.update(smallest)
    return [item for position, item in enumerate(items) if position in selected]


def _measured(
    items: Sequence[Item], section: Validation, concepts: Sequence[ConceptSettings]
) -> tuple[Item, ...]:
    """Return the validation images that are measured, always the same ones, in dataset order."""
    ordered = sorted(items, key=lambda item: _split_key(item, section, concepts))
    chosen = set(ordered[: section.max_images or len(ordered)])
    return tuple(item for item in items if item in chosen)


def validation_count(section: Validation, images: int) -> int:
    """Return how many images a split by number takes: at least one, at most half.

    Images beyond "At most" remain in training, as they would be of no use otherwise.
    """
    taken = max(1, min(round(section.split * images), images // 2))
    return min(taken, section.max_images) if section.max_images else taken


def real_paths(items: Iterable[Item]) -> dict[str, Item]:
    """Return the items by their paths with all links resolved."""
    return {position: item for item, position in _with_places(items)}


def _with_places(items: Iterable[Item]) -> list[tuple[Item, str]]:
    """Return each item with its real path; each folder is resolved once for all of its files."""
    folders: dict[str, str] = {}
    result = []
    for item in items:
        head, _, name = str(item.path).rpartition(os.sep)
        if head not in folders:
            folders[head] = os.path.realpath(head or os.sep)
        position = os.path.join(folders[head], name)  # noqa: PTH118 of text, for speed
        result.append((item, os.path.realpath(position) if os.path.islink(position) else position))  # noqa: PTH114
    return result


def _of_same_files(items: Sequence[Item], others: Iterable[Item]) -> list[Item]:
    """Return the items whose files are also those of other items."""
    places = real_paths(others)
    return [item for item, position in _with_places(items) if position in places]


def _split_key(item: Item, section: Validation, concepts: Sequence[ConceptSettings]) -> bytes:
    """Return the hash of an image in the validation split."""
    name, concept = item.name, concepts[item.concept]
    # Otherwise 1.png of twenty folders would be split off from all or none of them.
    if section.split_by != "names" and concept.identity:
        name = f"{concept.identity}/{name}"
    # The text decides which images are split off: another word would move them.
    return hashlib.sha256(f"{section.seed}:held-out:{name}".encode()).digest()
