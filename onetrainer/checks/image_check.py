"""A check of the pictures themselves: every file that is likely to spoil a training, and why.

It reads files and changes none. What it learns of pictures is remembered, so that a second check
reads only what has changed.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from onetrainer.captions.caption_list_file import CaptionEntry
from onetrainer.checks.item_checks import (
    caption_findings,
    detail_findings,
    mask_findings,
    no_mask_finding,
    size_findings,
)
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.concepts.folder_listing import list_folder
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.dataset import (
    Dataset,
    reads_image_folders,
    split,
    used_concepts,
    uses_images_only,
)
from onetrainer.dataset.items import DatasetIndex, Item, index_concept
from onetrainer.dataset.near_duplicates import (
    THREADS,
    Progress,
    extract_features,
    groups_from_pairs,
    similar_pairs,
)
from onetrainer.errors import UserError
from onetrainer.images.features import Features
from onetrainer.images.findings import Finding, sort_findings
from onetrainer.images.image_file import ImageError
from onetrainer.images.image_index import ImageIndex

_REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        ", too ": "Cut it, take a larger one",  # small, or long
        "cannot be read (": "Look whether it may be read, and whether its disk is in order",
        "a link to nothing": "Put back what it leads to",
        "not an ordinary file": "Move it elsewhere",
    }
)
"""What to do about a picture that is left out, by what its reason holds."""


@dataclass(frozen=True)
class CheckResult:
    """What a check has found. pictures: how many were looked at."""

    findings: tuple[Finding, ...]
    images: int


@dataclass(frozen=True)
class _Looked:
    """What pictures look like: the readable ones in order, and which of them look the same.

    pairs: places among items, the later second; all that look the same are linked by them.
    """

    items: Sequence[Item]
    features: Sequence[Features]
    pairs: Sequence[tuple[int, int]]


def check_dataset(
    config: TrainConfig,
    memory: ImageIndex | None = None,
    progress: Progress | None = None,
    *,
    should_stop: Callable[[], bool] | None = None,
    threads: int = THREADS,
) -> CheckResult:
    """Everything worth telling about the pictures of a config, worst first.

    memory: what is known of pictures already. progress: gets (pictures done, all).
    Raises UserError if no picture can be read at all, and LookingStopped if should_stop says so.
    """
    concepts, indexes, findings = _listed(config, memory)
    every = [item for index in indexes for item in index.items]
    paths = list(dict.fromkeys(item.path for item in every))
    seen = extract_features(paths, memory, progress, should_stop=should_stop, threads=threads)
    looks = dict(zip(paths, seen, strict=True))
    readable = [item for item in every if isinstance(looks[item.path], Features)]
    findings += [
        _unreadable(path, one.reason) for path, one in looks.items() if isinstance(one, ImageError)
    ]
    first = {item.path: item for item in reversed(readable)}
    kept = [item for item in readable if first[item.path] is item]
    features = [one for one in (looks[item.path] for item in kept) if isinstance(one, Features)]
    looked = _Looked(kept, features, similar_pairs(features, should_stop=should_stop))
    leaks = list(_leaks(config, concepts, indexes, looked))
    leaked = {(finding.path, finding.other) for finding in leaks}
    findings += leaks
    findings += [
        finding
        for finding in _doubles(looked, memory)
        if not {(finding.path, finding.other), (finding.other, finding.path)} & leaked
    ]
    findings += _of_items(config, concepts, looked, memory)
    # Two folders may tell of the same file.
    return CheckResult(tuple(sort_findings(list(dict.fromkeys(findings)))), len(paths))


def _listed(
    config: TrainConfig, memory: ImageIndex | None
) -> tuple[tuple[ConceptSettings, ...], list[DatasetIndex], list[Finding]]:
    """The folders, what they hold, and what is to be said of their listing. Raises UserError."""
    if not reads_image_folders(config):
        raise UserError(
            "this config is trained without pictures",
            "A config that names folders of pictures is needed",
            "Choose another one, or name a folder to check",
        )
    # That no picture has a caption is to be told of each, and not to end the check.
    data = config.data.model_copy(update={"require_captions": False})
    concepts = used_concepts(config.model_copy(update={"data": data}))
    indexes, findings, errors = [], [], []
    for number, concept in enumerate(concepts):
        try:
            index = index_concept(concept, number=number, headers=memory)
        except UserError as error:
            errors.append(error)
            remedy = error.remedy or "Put pictures there, or choose another folder"
            findings.append(Finding("unreadable", "error", concept.folder, error.what, remedy))
            index = DatasetIndex((), (), 0)
        indexes.append(index)
        findings += [_unreadable(each.path, each.reason) for each in index.skipped]
        findings += [_orphan(path) for path in index.orphans]
        if concept.caption_list is not None:
            findings += [_unlisted(concept.caption_list, entry) for entry in index.unlisted]
    findings += _twice(concepts, indexes)
    if not any(index.items for index in indexes):
        if errors:
            raise errors[0]
        raise UserError(
            "No folder of pictures is chosen",
            "A folder of pictures is needed",
            "Name one (data.folder, data.concepts), or give a folder to check",
        )
    return concepts, indexes, findings


def _twice(
    concepts: Sequence[ConceptSettings], indexes: Sequence[DatasetIndex]
) -> Iterator[Finding]:
    """Folders with pictures that an earlier one shows as well, as a folder within it does.

    What is held out is no matter: it is not learned, wherever it is found.
    """
    shown = [
        (concept, {item.path for item in index.items})
        for concept, index in zip(concepts, indexes, strict=True)
        if concept.role != "validation"
    ]
    for place, (concept, paths) in enumerate(shown):
        for other, others in shown[:place]:
            both = len(paths & others)
            if both:
                some = "all" if both == len(paths) else str(both)
                yield Finding(
                    "duplicate",
                    "warning",
                    concept.folder,
                    f'{some} of the {len(paths)} pictures of "{concept.name}" belong to'
                    f' "{other.name}" as well, so these count twice',
                    "Take one of the two folders out, or leave them if that is meant; repeats of a"
                    " folder show pictures more often",
                    other.folder,
                )


def _leaks(
    config: TrainConfig,
    concepts: Sequence[ConceptSettings],
    indexes: Sequence[DatasetIndex],
    looked: _Looked,
) -> Iterator[Finding]:
    """Held-out pictures that look like one that is learned."""
    numbers = groups_from_pairs(len(looked.items), looked.pairs)
    places = {item.path: place for place, item in enumerate(looked.items)}
    alone = len(looked.items)

    def group_similar(items: Sequence[Item]) -> list[int]:
        return [
            numbers[places[item.path]] if item.path in places else alone + place
            for place, item in enumerate(items)
        ]

    dataset = _split(config, concepts, indexes, group_similar)
    if dataset is None or not dataset.validation:
        return
    trained: dict[int, list[int]] = {}
    for item in dataset.items:
        if item.path in places and not item.is_prior:
            trained.setdefault(numbers[places[item.path]], []).append(places[item.path])
    direct = {pair for first, second in looked.pairs for pair in ((first, second), (second, first))}
    for item in dataset.validation:
        place = places.get(item.path)
        if place is None or numbers[place] not in trained:
            continue
        alike = trained[numbers[place]]
        other = next((each for each in alike if (place, each) in direct), alike[0])
        yield Finding(
            "leak",
            "error",
            item.path,
            f"it is held out, but looks nearly the same as {_beside(item, looked.items[other])},"
            " which is learned, so it says nothing about new pictures",
            "Take one of the two out of its folder, or turn on validation.keep_similar where a"
            " share is held out",
            looked.items[other].path,
        )


def _split(
    config: TrainConfig,
    concepts: Sequence[ConceptSettings],
    indexes: Sequence[DatasetIndex],
    group_similar: Callable[[Sequence[Item]], Sequence[int]],
) -> Dataset | None:
    """None if nothing would be left to learn, which the check of the config tells."""
    try:
        return split(config, concepts, indexes, group_similar=group_similar)
    except UserError:
        return None


def _doubles(looked: _Looked, memory: ImageIndex | None) -> Iterator[Finding]:
    """Pictures that are the same as an earlier one, or look so."""
    for first, second in sorted(looked.pairs, key=lambda pair: pair[::-1]):
        item, other = looked.items[second], looked.items[first]
        words = _beside(item, other)
        if os.path.realpath(item.path) == os.path.realpath(other.path):
            what = f"it is only another name of {words}, so that counts twice"
        elif _is_same_file(item.path, other.path, memory):
            what = f"it is the same file as {words}, which counts twice so"
        else:
            yield Finding(
                "near-duplicate",
                "note",
                item.path,
                f"it looks nearly the same as {words}; together they count twice",
                "Keep the better one, or both if they differ in what matters to you",
                other.path,
            )
            continue
        yield Finding(
            "duplicate",
            "warning",
            item.path,
            what,
            "Take one of them out; repeats of a folder show pictures more often",
            other.path,
        )


def _of_items(
    config: TrainConfig,
    concepts: Sequence[ConceptSettings],
    looked: _Looked,
    memory: ImageIndex | None,
) -> Iterator[Finding]:
    """What is to be said of each picture by itself."""
    is_plain = uses_images_only(config)
    files = {} if is_plain else _caption_files(concepts, looked.items)
    maskless = set(_maskless(concepts, looked.items))
    for number in sorted(maskless):
        yield no_mask_finding(concepts[number])
    for item, one in zip(looked.items, looked.features, strict=True):
        concept = concepts[item.concept]
        found = [size_findings(item, concept)]
        if item.concept not in maskless:
            found.append(mask_findings(item, concept, memory))
        if one.detail is not None:
            found.append(detail_findings(item, concept, one.detail))
        if not is_plain:
            found.append(caption_findings(item, concept, files.get(item.path)))
        yield from chain.from_iterable(found)


def _maskless(concepts: Sequence[ConceptSettings], items: Sequence[Item]) -> list[int]:
    """The concepts of several pictures that use masks, and of which none has one."""
    counts = Counter(item.concept for item in items)
    masked = {item.concept for item in items if item.mask is not None}
    return [
        number
        for number, count in counts.items()
        if concepts[number].masks != "off" and number not in masked and count > 1
    ]


def _caption_files(
    concepts: Sequence[ConceptSettings], items: Sequence[Item]
) -> Mapping[Path, Path]:
    """The text files of pictures without a caption, where there are such pictures."""
    bare = {item.concept for item in items if not any(item.captions)}
    return {
        found.path: found.caption
        for number in sorted(bare)
        if concepts[number].caption_source == "files"
        for found in list_folder(
            concepts[number].folder, recursive=concepts[number].recursive
        ).images
        if found.caption is not None
    }


def _is_same_file(path: Path, other: Path, memory: ImageIndex | None) -> bool:
    try:
        if path.stat().st_size != other.stat().st_size:
            return False
        return _digest(path, memory) == _digest(other, memory)
    except OSError:
        return False  # gone meanwhile


def _digest(path: Path, memory: ImageIndex | None) -> str:
    known = memory.digest(path) if memory else None
    return known or hashlib.sha256(path.read_bytes()).hexdigest()


def _beside(item: Item, other: Item) -> str:
    """What to call another picture: its name, and its folder where that is another one."""
    return other.path.name if other.path.parent == item.path.parent else str(other.path)


def _unreadable(path: Path, reason: str) -> Finding:
    what, _, own = reason.partition("; ")  # some reasons tell what to do
    remedy = f"{own[0].upper()}{own[1:]}" if own else "Save it anew from a program that opens it"
    for sign, other in _REMEDIES.items():
        if sign in what:
            remedy = other
    return Finding(
        "unreadable", "error", path, f"it is left out: {what}", f"{remedy}, or remove it"
    )


def _orphan(path: Path) -> Finding:
    noun = "caption" if path.suffix.lower() == ".txt" else "mask or conditioning picture"
    return Finding(
        "orphan",
        "note",
        path,
        f"no picture beside it has its name, so this {noun} is not used",
        "Give it the name of its picture, or remove it",
    )


def _unlisted(path: Path, entry: CaptionEntry) -> Finding:
    return Finding(
        "orphan",
        "note",
        path,
        f'line {entry.line} is about "{entry.file}", and there is no such picture',
        "Correct the name there, or remove the line",
    )
