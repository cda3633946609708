"""Which pictures each step learns from, known beforehand.

The order is a function of (seed, epoch): a resumed run goes on in it, and neither microbatches nor
processes change it.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from threading import RLock
from typing import NamedTuple, TypeVar

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.dataset import Dataset
from onetrainer.dataset.epoch_permutation import ConceptSlice, EpochPermutation
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import bucket_at, transform_number
from onetrainer.seeds import derive, shuffled

__all__ = [
    "BatchPlan",
    "ConceptSlice",
    "ImageRepeat",
    "StepPlan",
    "all_buckets",
    "buckets_of",
    "concept_slices",
]

T = TypeVar("T")

_PLANNED_EPOCHS = 2
"""How many epochs are kept at hand: readers ahead of the training are in the next one already."""


class ImageRepeat(NamedTuple):
    """One showing of a picture.

    item: its place among the pictures. turn: how often it was shown before. number: of the view,
    that is, of its resolution and of the way it is changed.
    """

    item: int
    repeat: int
    transform: int


@dataclass(frozen=True)
class StepPlan:
    """The pictures of one step; all are of one bucket.

    microbatches: what is computed at once. weight: a picture's share of the step's loss. It is
    that of a full step even where fewer pictures are left over, so that no picture counts more.
    """

    step: int
    epoch: int
    bucket: Bucket
    microbatches: tuple[tuple[ImageRepeat, ...], ...]
    weight: float

    @property
    def images(self) -> tuple[ImageRepeat, ...]:
        """All of them, by position within the step."""
        return tuple(images for microbatch in self.microbatches for images in microbatch)

    def of_rank(self, rank: int, world: int) -> tuple[tuple[int, tuple[ImageRepeat, ...]], ...]:
        """What one of several processes computes: microbatches with the position of their first.

        Every world-th microbatch; of a step that is not full, the last ranks may get none.
        """
        position, found = 0, []
        for number, microbatch in enumerate(self.microbatches):
            if number % world == rank:
                found.append((position, microbatch))
            position += len(microbatch)
        return tuple(found)


class BatchPlan:
    """The order of a run, in steps of one bucket each; for any number of threads.

    A step takes batch_size × accumulation × world pictures of a bucket, or what is left of it.
    Each portion goes through its pictures in rounds: all of them, then all again. An epoch takes
    its number of showings and the next one goes on where it ended, so that no picture is ever
    shown two times more than another. portions: must show something.
    """

    def __init__(
        self,
        portions: Sequence[ConceptSlice],
        *,
        batch_size: int,
        accumulation: int,
        seed: int,
        world: int = 1,
    ) -> None:
        images = [one for one in portions if one.count and one.per_epoch]
        if not images:
            raise ValueError("an epoch shows no picture")
        self._permutations = [
            EpochPermutation(concept_slice)
            for concept_slice in sorted(images, key=lambda one: one.first)
        ]
        self._firsts = [permutation.concept_slice.first for permutation in self._permutations]
        self._batch_size = batch_size
        self._full = batch_size * accumulation * world
        self._seed = seed
        # Where each epoch begins, up to the last one asked for. Not a multiple: epochs may show
        # other pictures, of other buckets, and then take other numbers of steps.
        self._starts = [0]
        self.period = math.lcm(*(permutation.period for permutation in self._permutations))
        """After how many epochs they take as many steps again; 0 where they never do."""
        self._planned: dict[int, list[_Step]] = {}
        # Several threads may ask for steps; both lists above grow as they do.
        self._lock = RLock()

    @property
    def steps_per_epoch(self) -> int:
        """How many steps the first epoch has that shows anything; mostly, all have as many."""
        return self.steps_in(self.epoch_of(0))

    def epoch_of(self, step: int) -> int:
        """Which pass over the pictures a step belongs to, from 0."""
        if self.period:
            periods, step = divmod(step, self.first_step(self.period))
            return periods * self.period + bisect_right(self._starts, step) - 1
        with self._lock:
            while self._starts[-1] <= step:
                self.first_step(len(self._starts))
            return bisect_right(self._starts, step) - 1

    def first_step(self, epoch: int) -> int:
        """The step an epoch begins with; that of the next one where it shows nothing."""
        periods, epoch = divmod(epoch, self.period) if self.period else (0, epoch)
        with self._lock:
            while len(self._starts) <= max(epoch, self.period):
                counts = self.bucket_counts(len(self._starts) - 1).values()
                steps = sum(-(-count // self._full) for count in counts)
                self._starts.append(self._starts[-1] + steps)
            return periods * self._starts[self.period] + self._starts[epoch]

    def steps_in(self, epoch: int) -> int:
        """How many steps an epoch has; 0 where it shows nothing, as of one picture every other."""
        return self.first_step(epoch + 1) - self.first_step(epoch)

    def images_in(self, epoch: int) -> int:
        """How many pictures an epoch shows, each as often as it does."""
        return self.bucket_counts(epoch).total()

    def bucket_counts(self, epoch: int) -> Counter[Bucket]:
        """The same by bucket."""
        counts: Counter[Bucket] = Counter()
        for permutation in self._permutations:
            counts.update(permutation.counts(epoch))
        return counts

    def images_before_step(self, step: int) -> int:
        """How many pictures all steps before one show, each as often as they do."""
        with self._lock:
            epoch = self.epoch_of(step)
            own = self._steps(epoch)[: step - self.first_step(epoch)]
        return self.images_before_epoch(epoch) + sum(len(repeats) for _, repeats in own)

    def images_before_epoch(self, epoch: int) -> int:
        """How many pictures all epochs before one show."""
        return sum(permutation.positions(epoch).start for permutation in self._permutations)

    def at(self, step: int) -> StepPlan:
        """The step's pictures; steps count from 0 over all epochs."""
        with self._lock:
            epoch = self.epoch_of(step)
            bucket, repeats = self._steps(epoch)[step - self.first_step(epoch)]
        images = [
            ImageRepeat(item, repeat, self._slice_of(item).transform_at(item, repeat))
            for item, repeat in repeats
        ]
        return StepPlan(
            step=step,
            epoch=epoch,
            bucket=bucket,
            microbatches=_cut(images, self._batch_size),
            weight=1 / self._full,
        )

    def _slice_of(self, item: int) -> ConceptSlice:
        return self._permutations[bisect_right(self._firsts, item) - 1].concept_slice

    def _steps(self, epoch: int) -> "list[_Step]":
        """An epoch's steps, planned once as long as it is near."""
        if epoch not in self._planned:
            while len(self._planned) >= _PLANNED_EPOCHS:
                del self._planned[next(iter(self._planned))]
            self._planned[epoch] = self._made(epoch)
        return self._planned[epoch]

    def _made(self, epoch: int) -> "list[_Step]":
        members: dict[Bucket, list[tuple[int, int]]] = {}
        for permutation in self._permutations:
            for item, repeat, bucket in permutation.entries(epoch):
                members.setdefault(bucket, []).append((item, repeat))
        steps = []
        for bucket, images in sorted(members.items()):
            # By the bucket's size and not its number: a new bucket leaves the others' order.
            seed = derive(self._seed, "order", epoch, bucket.width, bucket.height)
            steps += [(bucket, repeats) for repeats in _cut(shuffled(images, seed), self._full)]
        return shuffled(steps, derive(self._seed, "steps", epoch))


_Step = tuple[Bucket, tuple[tuple[int, int], ...]]
"""A step: the bucket, and each picture's place and turn."""


def concept_slices(
    dataset: Dataset, *, is_cached: bool, kept: Sequence[int] | None = None
) -> list[ConceptSlice]:
    """How a dataset's pictures take turns: a portion for each concept that has some.

    is_cached: whether pictures are encoded once, so that their variations take turns. kept: the
    places, in their order, of those that could be encoded; None for all. The portions' places are
    then places within kept.
    """
    items = dataset.items if kept is None else [dataset.items[place] for place in kept]
    sizes = all_buckets(items, dataset.concepts)
    counts = Counter(item.concept for item in items)
    each = {number: _per_epoch(dataset.concepts[number], count) for number, count in counts.items()}
    trained = sum((each[n] for n in each if dataset.concepts[n].role == "train"), Fraction(0))
    found, first = [], 0
    for number, count in counts.items():
        concept = dataset.concepts[number]
        own = _Concept(concept, items, sizes, is_cached)
        found.append(
            ConceptSlice(
                first=first,
                count=count,
                per_epoch=trained if concept.matches_training else each[number],
                seed=derive(concept.seed, "rounds", concept.name),
                transform_at=own.transform_at,
                bucket_at=own.bucket_at,
                period=own.period(range(first, first + count)),
            )
        )
        first += count
    return found


@dataclass(frozen=True)
class _Concept:
    """What decides how the pictures of a concept are shown; items, sizes: of all concepts."""

    concept: ConceptSettings
    items: Sequence[Item]
    sizes: Sequence[tuple[Bucket, ...]]
    is_cached: bool

    def transform_at(self, place: int, repeat: int) -> int:
        return transform_number(self.items[place], self.concept, repeat, is_cached=self.is_cached)

    def bucket_at(self, place: int, number: int) -> Bucket:
        own = self.sizes[place]
        return own[number % len(own)]

    def period(self, places: range) -> int:
        is_same = all(len(set(self.sizes[place])) == 1 for place in places)
        return 1 if is_same else len(self.concept.resolutions)


def buckets_of(item: Item, concept: ConceptSettings) -> tuple[Bucket, ...]:
    """A picture's bucket at each resolution of its concept."""
    return tuple(bucket_at(item, concept, number) for number in range(len(concept.resolutions)))


def all_buckets(
    items: Iterable[Item], concepts: Sequence[ConceptSettings]
) -> list[tuple[Bucket, ...]]:
    """The same of many; concepts: by their numbers, as items have them."""
    # Many pictures are of one size, and nothing else decides.
    known: dict[tuple[int, int, int], tuple[Bucket, ...]] = {}
    found = []
    for item in items:
        key = (item.concept, item.width, item.height)
        if key not in known:
            known[key] = buckets_of(item, concepts[item.concept])
        found.append(known[key])
    return found


def _per_epoch(concept: ConceptSettings, count: int) -> Fraction:
    return Fraction(concept.images) if concept.images else concept.repeats * count


def _cut(values: Sequence[T], length: int) -> tuple[tuple[T, ...], ...]:
    """Pieces of a length, the last one of what is left."""
    starts = range(0, len(values), length)
    return tuple(tuple(values[start : start + length]) for start in starts)
