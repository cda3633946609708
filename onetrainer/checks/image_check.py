"""Check the image files: find everything that is likely to spoil a training.

No file is changed. Results are cached, so that a second check reads only changed files.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onetrainer.checks.item_checks import (
    detail_findings,
    size_findings,
)
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.dataset import (
    reads_image_folders,
    split,
    used_concepts,
)
from onetrainer.dataset.folder_findings import unusable_finding
from onetrainer.dataset.items import DatasetIndex, Item, index_concept
from onetrainer.dataset.near_duplicates import (
    THREADS,
    AnalysisCancelled,
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


@dataclass(frozen=True)
class CheckResult:
    """The findings of a check, and the number of checked images."""

    findings: tuple[Finding, ...]
    images: int


@dataclass(frozen=True)
class _Analysis:
    """Readable images in order with their features, and which of them are near-duplicates.

    pairs are indices of items, the later second; they link all images of a group.
    """

    items: Sequence[Item]
    features: Sequence[Features]
    pairs: Sequence[tuple[int, int]]


def check_dataset(
    config: TrainConfig,
    image_index: ImageIndex | None = None,
    progress: Progress | None = None,
    *,
    should_stop: Callable[[], bool] | None = None,
    threads: int = THREADS,
) -> CheckResult:
    """Check the images of a config; findings are sorted, worst first.

    Calls progress with (images done, total). Raises UserError if no image can be read, and
    AnalysisCancelled if should_stop returned True.
    """
    concepts, indexes, findings = _list_folders(config, image_index, should_stop)
    items = [item for index in indexes for item in index.items]
    paths = list(dict.fromkeys(item.path for item in items))
    results = extract_features(
        paths, image_index, progress, should_stop=should_stop, threads=threads
    )
    first = {item.path: item for item in reversed(items)}
    kept, features = [], []
    for path, result in zip(paths, results, strict=True):
        if isinstance(result, ImageError):
            findings.append(unusable_finding(path, result.reason))
        else:
            kept.append(first[path])
            features.append(result)
    analysis = _Analysis(kept, features, similar_pairs(features, should_stop=should_stop))
    leaks = list(_validation_leaks(config, concepts, indexes, analysis))
    leaked = {(finding.path, finding.other) for finding in leaks}
    findings += leaks
    findings += [
        finding
        for finding in _duplicates(analysis, image_index)
        if not {(finding.path, finding.other), (finding.other, finding.path)} & leaked
    ]
    findings += _image_findings(concepts, analysis)
    # Two folders may report the same file.
    return CheckResult(tuple(sort_findings(list(dict.fromkeys(findings)))), len(paths))


def _list_folders(
    config: TrainConfig, image_index: ImageIndex | None, should_stop: Callable[[], bool] | None
) -> tuple[tuple[ConceptSettings, ...], list[DatasetIndex], list[Finding]]:
    """Return the folders, their contents, and findings about them. Raises UserError."""
    if not reads_image_folders(config):
        raise UserError(
            "this config is trained without images",
            "A config with image folders is needed",
            "Choose another one, or give a folder to check",
        )

    def watch(*_: int) -> None:
        if should_stop and should_stop():
            raise AnalysisCancelled

    # Missing captions are findings about each image, and must not end the check.
    data = config.data.model_copy(update={"require_captions": False})
    concepts = used_concepts(config.model_copy(update={"data": data}))
    indexes, findings, errors = [], [], []
    for number, concept in enumerate(concepts):
        try:
            index = index_concept(concept, number=number, headers=image_index, watch=watch)
        except UserError as error:
            errors.append(error)
            remedy = error.remedy or "Put images there, or choose another folder"
            findings.append(Finding("unreadable", concept.folder, error.what, remedy))
            index = DatasetIndex((), (), 0)
        indexes.append(index)
        findings += index.findings
    findings += _folder_duplicates(concepts, indexes)
    if not any(index.items for index in indexes):
        if errors:
            raise errors[0]
        raise UserError(
            "no image folder is chosen",
            "An image folder is needed",
            "Choose one (data.folder, data.concepts), or give a folder to check",
        )
    return concepts, indexes, findings


def _folder_duplicates(
    concepts: Sequence[ConceptSettings], indexes: Sequence[DatasetIndex]
) -> Iterator[Finding]:
    """Yield folders whose images an earlier folder contains as well.

    Validation folders are skipped: their images are not trained wherever they are.
    """
    trained = [
        (concept, {item.path for item in index.items})
        for concept, index in zip(concepts, indexes, strict=True)
        if concept.role != "validation"
    ]
    for position, (concept, paths) in enumerate(trained):
        for other, others in trained[:position]:
            both = len(paths & others)
            if both:
                some = "all" if both == len(paths) else str(both)
                yield Finding(
                    "duplicate",
                    concept.folder,
                    f'{some} of the {len(paths)} images of "{concept.name}" are also in'
                    f' "{other.name}", so they count twice',
                    "Remove one of the two folders unless this is intended; repeats of a"
                    " folder use its images more often",
                    other.folder,
                )


def _validation_leaks(
    config: TrainConfig,
    concepts: Sequence[ConceptSettings],
    indexes: Sequence[DatasetIndex],
    analysis: _Analysis,
) -> Iterator[Finding]:
    """Yield validation images that are near-duplicates of training images."""
    groups = groups_from_pairs(len(analysis.items), analysis.pairs)
    positions = {item.path: position for position, item in enumerate(analysis.items)}
    next_group = len(analysis.items)

    def group_similar(items: Sequence[Item]) -> list[int]:
        return [
            groups[positions[item.path]] if item.path in positions else next_group + position
            for position, item in enumerate(items)
        ]

    try:
        dataset = split(config, concepts, indexes, group_similar=group_similar)
    except UserError:  # which the check of the config reports
        return
    trained: dict[int, list[int]] = {}
    for item in dataset.items:
        if item.path in positions and not item.is_prior:
            trained.setdefault(groups[positions[item.path]], []).append(positions[item.path])
    direct = {
        pair for first, second in analysis.pairs for pair in ((first, second), (second, first))
    }
    for item in dataset.validation or ():
        position = positions.get(item.path)
        if position is None or groups[position] not in trained:
            continue
        candidates = trained[groups[position]]
        other = next((each for each in candidates if (position, each) in direct), candidates[0])
        yield Finding(
            "leak",
            item.path,
            "validation image, but nearly the same as the training image"
            f" {_display_name(item, analysis.items[other])}, so its loss says nothing about new"
            " images",
            "Remove one of the two, or turn on validation.keep_similar if you use a validation"
            " split",
            analysis.items[other].path,
        )


def _duplicates(analysis: _Analysis, image_index: ImageIndex | None) -> Iterator[Finding]:
    """Yield duplicates and near-duplicates of earlier images."""
    for first, second in sorted(analysis.pairs, key=lambda pair: pair[::-1]):
        item, other = analysis.items[second], analysis.items[first]
        name = _display_name(item, other)
        if os.path.realpath(item.path) == os.path.realpath(other.path):
            if not _is_link(item.path) and _is_link(other.path):
                item, other = other, item  # the first by its name may be the link
                name = _display_name(item, other)
            what = f"link to {name}"
            if _is_link(other.path):
                what = f"link to the same file as {name}"
        elif _is_same_file(item.path, other.path, image_index):
            what = f"identical to {name}"
        else:
            what = f"nearly identical to {name}"
            remedy = "Keep the better one, or both if they differ in what matters to you"
            yield Finding("near-duplicate", item.path, what, remedy, other.path)
            continue
        remedy = "Remove one of them; repeats of a folder use its images more often"
        yield Finding("duplicate", item.path, what, remedy, other.path)


def _image_findings(concepts: Sequence[ConceptSettings], analysis: _Analysis) -> Iterator[Finding]:
    """Yield the findings about what single images show."""
    for item, result in zip(analysis.items, analysis.features, strict=True):
        concept = concepts[item.concept]
        yield from size_findings(item, concept)
        if result.detail is not None:
            yield from detail_findings(item, concept, result.detail)


def _is_link(path: Path) -> bool:
    """Return whether a file, or a folder above it, is a link."""
    return os.path.realpath(path) != str(path.absolute())


def _is_same_file(path: Path, other: Path, image_index: ImageIndex | None) -> bool:
    try:
        if path.stat().st_size != other.stat().st_size:
            return False
        known = [image_index.digest(one) if image_index else None for one in (path, other)]
        first, second = (
            digest or hashlib.sha256(one.read_bytes()).hexdigest()
            for one, digest in zip((path, other), known, strict=True)
        )
    except OSError:
        return False  # gone meanwhile
    return first == second


def _display_name(item: Item, other: Item) -> str:
    """Return the name of another image, with its folder if that differs."""
    return other.path.name if other.path.parent == item.path.parent else str(other.path)
