"""What is known of the pixels of a run's images: which can be decoded, and which look alike."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.dataset import Dataset, read_dataset, without_damaged
from onetrainer.dataset.items import (
    DatasetIndex,
    HeaderCache,
    Item,
    Skipped,
    Watch,
    is_uncaptioned,
)
from onetrainer.dataset.near_duplicates import (
    THREADS,
    Progress,
    extract_features,
    group_features,
)
from onetrainer.images.features import VERSION, Features, unpack
from onetrainer.images.image_file import ImageError
from onetrainer.images.image_index import ImageIndex


class PixelFacts:
    """What is known of images: of an index, and of those that were examined since.

    image_index: None if nothing is known yet. It does not keep what is found of files that have
    just changed, so that is kept here.
    """

    def __init__(self, image_index: ImageIndex | None = None) -> None:
        self._index = image_index
        self._found: dict[Path, Features | ImageError] = {}

    @property
    def headers(self) -> HeaderCache | None:
        """What keeps the headers of the images."""
        return self._index

    def examine(
        self,
        items: Iterable[Item],
        progress: Progress | None = None,
        *,
        should_stop: Callable[[], bool] | None = None,
        threads: int = THREADS,
    ) -> None:
        """Decode the images that are not known to be sound, with their masks.

        progress is called with (done, total). Raises AnalysisCancelled if should_stop returns True.
        """
        files = dict.fromkeys(path for item in items for path, _ in _files(item))
        paths = [path for path in files if self._features(path) is None]
        found = extract_features(
            paths, self._index, progress, should_stop=should_stop, threads=threads
        )
        self._found |= zip(paths, found, strict=True)

    def groups(
        self, items: Sequence[Item], *, should_stop: Callable[[], bool] | None = None
    ) -> list[int] | None:
        """Return the number of each item's group of near-duplicates; None if any is not known.

        Raises AnalysisCancelled if should_stop returns True.
        """
        features = []
        for item in items:
            features.append(self._features(item.path))
            if features[-1] is None and self._damage(item.path) is None:
                return None
        return group_features(features, should_stop=should_stop)

    def apply(self, dataset: Dataset) -> Dataset:
        """Return a dataset without its damaged images, and with the number of unknown ones.

        Raises UserError as `without_damaged`.
        """
        damaged, unexamined = [], 0
        for item in (*dataset.items, *(dataset.validation or ())):
            reason = self.damage(item)
            if reason:
                damaged.append(Skipped(item.path, reason))
            unexamined += reason is None
        dataset = without_damaged(dataset, damaged) if damaged else dataset
        return replace(dataset, unexamined=unexamined)

    def apply_to(self, index: DatasetIndex, concept: ConceptSettings) -> DatasetIndex:
        """Return the contents of a folder without the images that are known to be damaged."""
        damage = {item.path: self.damage(item) for item in index.items}
        items = tuple(item for item in index.items if not damage[item.path])
        found = [Skipped(path, reason) for path, reason in damage.items() if reason]
        if not found:
            return index
        uncaptioned = sum(is_uncaptioned(item, concept) for item in items)
        skipped = (*index.skipped, *found)
        return replace(index, items=items, skipped=skipped, uncaptioned=uncaptioned)

    def damage(self, item: Item) -> str | None:
        """Return why an item cannot be decoded; "" if it can, None if that is not known."""
        is_known = True
        for path, noun in _files(item):
            if self._is_sound(path):
                continue
            reason = self._damage(path)
            if reason is not None:
                return f'its {noun} "{path.name}": {reason}' if noun else reason
            is_known = False
        return "" if is_known else None

    def _is_sound(self, path: Path) -> bool:
        if path in self._found:
            return isinstance(self._found[path], Features)
        return self._index is not None and self._index.features(path, VERSION) is not None

    def _features(self, path: Path) -> Features | None:
        found = self._found.get(path)
        if found is not None:
            return found if isinstance(found, Features) else None
        packed = self._index.features(path, VERSION) if self._index else None
        return None if packed is None else unpack(packed)

    def _damage(self, path: Path) -> str | None:
        """Return why a file that has no features could not be decoded; None if it was not tried."""
        found = self._found.get(path)
        if isinstance(found, ImageError):
            return found.reason
        return self._index.damage(path) if self._index else None


def read_known_dataset(
    config: TrainConfig,
    facts: PixelFacts,
    *,
    headers: HeaderCache | None = None,
    watch: Watch | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Dataset:
    """Return the dataset of a run, as far as its images are known; reads headers only.

    As long as some are unknown, a validation split does not keep near-duplicates together, and
    damaged images may be among the others. Raises as `read_dataset` and `PixelFacts`.
    """

    def group_similar(items: Sequence[Item]) -> Sequence[int]:
        groups = facts.groups(items, should_stop=should_stop)
        return range(len(items)) if groups is None else groups

    dataset = read_dataset(config, headers=headers, group_similar=group_similar, watch=watch)
    return facts.apply(dataset)


def _files(item: Item) -> Iterator[tuple[Path, str]]:
    """Yield the image files of an item, each with what it is of the image: "" for that itself."""
    yield item.path, ""
    if item.mask is not None and item.mask != item.path:
        yield item.mask, "mask"
    if item.conditioning is not None:
        yield item.conditioning, "conditioning image"
