"""The order of images in a run: which images each training step uses.

The order is a function of (seed, epoch). A resumed run continues in it, and neither the number of
microbatches nor the number of processes changes it.
"""

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate, chain, groupby
from threading import RLock
from typing import NamedTuple, TypeVar

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.config.train import TrainConfig
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.dataset import Dataset
from onetrainer.dataset.epoch_order import ConceptSlice, EpochPermutation
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import bucket_at, transform_count, transform_number
from onetrainer.seeds import derive, shuffled

T = TypeVar("T")

_PLANNED_EPOCHS = 2
"""Number of epochs kept in memory: prefetching readers are already in the next one."""
_PLANNED_STEPS = 64
"""Number of steps kept in memory: each is asked for when it is read ahead, and when it is made."""


class ImageRepeat(NamedTuple):
    """One use of an image in training.

    item: index of the image in the dataset. repeat: how many times the image was used before.
    transform: number of its transform, that is, of its resolution and augmentation.
    """

    item: int
    repeat: int
    transform: int


@dataclass(frozen=True)
class StepPlan:
    """The images of one optimizer step.

    microbatches: each of one bucket. weight: of each image in the loss. It is that of a full step
    even in a step with fewer images, so that every image counts the same.
    """

    step: int
    epoch: int
    microbatches: tuple[tuple[ImageRepeat, ...], ...]
    weight: float

    @property
    def images(self) -> tuple[ImageRepeat, ...]:
        """All images of the step in order."""
        return tuple(images for microbatch in self.microbatches for images in microbatch)


class BatchPlan:
    """The steps of a run. Thread-safe.

    A step takes batch_size × accumulation images: of one bucket as long as it has so many, then
    what remains of the epoch's buckets, one after the other. Only one step of an epoch may have
    fewer. A microbatch is of one bucket, so a step of several may have more than accumulation.

    Each concept slice goes through its images in permutations: all of them, then all again. An
    epoch takes its number of images and the next one continues where it ended, so that no image is
    used two times more often than another.

    mixes_shapes: whether a step may have images of several buckets. Otherwise what remains of each
    bucket is a step of its own.

    Raises ValueError if no slice has any images to use.
    """

    def __init__(
        self,
        slices: Sequence[ConceptSlice],
        *,
        batch_size: int,
        accumulation: int,
        seed: int,
        mixes_shapes: bool = True,
    ) -> None:
        used = [one for one in slices if one.count and one.per_epoch]
        if not used:
            raise ValueError("an epoch has no images")
        used.sort(key=lambda one: one.first)
        self._permutations = [EpochPermutation(one) for one in used]
        self._firsts = [one.first for one in used]
        self._batch_size = batch_size
        self._images_per_step = batch_size * accumulation
        self._seed = seed
        self._mixes_shapes = mixes_shapes
        # First step of each epoch planned so far. Not multiples: epochs may have different images,
        # of different buckets, and then take different numbers of steps.
        self._starts = [0]
        self.period = math.lcm(*(permutation.period for permutation in self._permutations))
        """Number of epochs after which the numbers of steps recur; 0 if they never do."""
        self._planned: dict[int, _Epoch] = {}
        self._recent: dict[int, StepPlan] = {}
        # Several threads may ask for steps; both lists above grow as they do.
        self._lock = RLock()

    def __getstate__(self) -> dict[str, object]:
        """Return what another process needs; it plans epochs itself."""
        return {**vars(self), "_planned": {}, "_lock": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Take what another process has sent."""
        vars(self).update(state, _lock=RLock())

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps of the first epoch that is not empty."""
        return self.steps_in(self.epoch_of(0))

    def epoch_of(self, step: int) -> int:
        """Return the epoch of a step, from 0."""
        if self.period:
            periods, step = divmod(step, self.first_step(self.period))
            return periods * self.period + bisect_right(self._starts, step) - 1
        with self._lock:
            while self._starts[-1] <= step:
                self.first_step(len(self._starts))
            return bisect_right(self._starts, step) - 1

    def first_step(self, epoch: int) -> int:
        """Return the first step of an epoch; for an empty epoch, that of the next one."""
        periods, epoch = divmod(epoch, self.period) if self.period else (0, epoch)
        with self._lock:
            while len(self._starts) <= max(epoch, self.period):
                self._starts.append(
                    self._starts[-1] + sum(self._step_counts(len(self._starts) - 1))
                )
            return periods * self._starts[self.period] + self._starts[epoch]

    def steps_in(self, epoch: int) -> int:
        """Return the number of steps of an epoch; 0 if it has no images."""
        return self.first_step(epoch + 1) - self.first_step(epoch)

    def small_steps_in(self, epoch: int) -> int:
        """Return the number of steps of an epoch that have fewer images than a full one."""
        return self._step_counts(epoch)[1]

    def images_in(self, epoch: int) -> int:
        """Return the number of images that an epoch uses, counting repeats."""
        return self.bucket_counts(epoch).total()

    def bucket_counts(self, epoch: int) -> Counter[Bucket]:
        """Return the number of images that an epoch uses, counting repeats, by bucket."""
        counts: Counter[Bucket] = Counter()
        for permutation in self._permutations:
            counts.update(permutation.counts(epoch))
        return counts

    def images_before_step(self, step: int) -> int:
        """Return the number of images used before a step, counting repeats."""
        with self._lock:
            epoch = self.epoch_of(step)
            earlier = self._epoch(epoch).images_before[step - self.first_step(epoch)]
        return self.images_before_epoch(epoch) + earlier

    def images_before_epoch(self, epoch: int) -> int:
        """Return the number of images used before an epoch, counting repeats."""
        return sum(permutation.positions(epoch).start for permutation in self._permutations)

    def at(self, step: int) -> StepPlan:
        """Return the plan of a step; steps count from 0 over all epochs."""
        with self._lock:
            if step not in self._recent:
                while len(self._recent) >= _PLANNED_STEPS:
                    del self._recent[next(iter(self._recent))]
                self._recent[step] = self._plan_step(step)
            return self._recent[step]

    def _plan_step(self, step: int) -> StepPlan:
        epoch = self.epoch_of(step)
        images = self._epoch(epoch).steps[step - self.first_step(epoch)]
        microbatches: list[tuple[ImageRepeat, ...]] = []
        for _, alike in groupby(images, key=lambda image: image[0]):
            repeats = [
                ImageRepeat(item, repeat, self._slice_of(item).transform_at(item, repeat))
                for _, item, repeat in alike
            ]
            microbatches += _chunks(repeats, self._batch_size)
        return StepPlan(
            step=step,
            epoch=epoch,
            microbatches=tuple(microbatches),
            weight=1 / self._images_per_step,
        )

    def _slice_of(self, item: int) -> ConceptSlice:
        return self._permutations[bisect_right(self._firsts, item) - 1].concept_slice

    def _epoch(self, epoch: int) -> "_Epoch":
        """Return an epoch, planned once while it is recent."""
        if epoch not in self._planned:
            while len(self._planned) >= _PLANNED_EPOCHS:
                del self._planned[next(iter(self._planned))]
            steps = self._plan_epoch(epoch)
            before = accumulate(map(len, steps), initial=0)
            self._planned[epoch] = _Epoch(steps, array("q", before))
        return self._planned[epoch]

    def _step_counts(self, epoch: int) -> tuple[int, int]:
        """Return the numbers of full steps and of others of an epoch."""
        counts: Iterable[int] = self.bucket_counts(epoch).values()
        if self._mixes_shapes:
            counts = [sum(counts)]
        full = self._images_per_step
        return sum(count // full for count in counts), sum(bool(count % full) for count in counts)

    def _plan_epoch(self, epoch: int) -> "list[_Step]":
        members: dict[Bucket, list[_Image]] = {}
        for permutation in self._permutations:
            for item, repeat, bucket in permutation.entries(epoch):
                members.setdefault(bucket, []).append((bucket, item, repeat))
        steps: list[_Step] = []
        rest: list[Sequence[_Image]] = []
        for bucket, images in sorted(members.items()):
            # By the bucket's size, not its number: a new bucket does not change others' order.
            order = shuffled(
                images, derive(self._seed, "order", epoch, bucket.width, bucket.height)
            )
            remaining = len(order) % self._images_per_step if self._mixes_shapes else 0
            whole = len(order) - remaining
            steps += _chunks(order[:whole], self._images_per_step)
            rest.append(order[whole:])
        # Other buckets share a step in every epoch.
        mixed = chain.from_iterable(shuffled(rest, derive(self._seed, "rest", epoch)))
        steps += _chunks(tuple(mixed), self._images_per_step)
        return shuffled(steps, derive(self._seed, "steps", epoch))


_Image = tuple[Bucket, int, int]
"""An image of a step: its bucket, index and repeat."""
_Step = tuple[_Image, ...]


class _Epoch(NamedTuple):
    """The steps of an epoch; images_before: of the epoch, before each step and after the last."""

    steps: list[_Step]
    images_before: "array[int]"


def batch_plan(
    config: TrainConfig, dataset: Dataset, *, kept: Sequence[int] | None = None
) -> BatchPlan:
    """Return the steps of a config's run on a dataset. kept: see `concept_slices`."""
    return BatchPlan(
        concept_slices(dataset, is_cached=config.data.cache_latents, kept=kept),
        batch_size=config.training.batch_size,
        accumulation=config.training.accumulation,
        seed=config.training.seed,
        # A fused backward pass updates weights after a single microbatch.
        mixes_shapes=config.training.mixes_shapes and not config.optimizer.is_fused,
    )


def concept_slices(
    dataset: Dataset, *, is_cached: bool, kept: Sequence[int] | None = None
) -> list[ConceptSlice]:
    """Return one slice for each concept that has images.

    is_cached: whether latents are cached, so that a fixed number of variations take turns. kept:
    indices of the images that could be encoded, in order; None for all. The slices then refer to
    positions within kept.
    """
    items = dataset.items if kept is None else [dataset.items[index] for index in kept]
    buckets = all_buckets(items, dataset.concepts)
    counts = Counter(item.concept for item in items)
    per_epoch = {}
    for number, count in counts.items():
        concept = dataset.concepts[number]
        per_epoch[number] = Fraction(concept.images or concept.repeats * count)
    roles = {number: dataset.concepts[number].role for number in counts}
    trained = sum((per_epoch[n] for n in counts if roles[n] == "train"), Fraction(0))

    transform_at = partial(_transform_at, items, dataset.concepts, is_cached)
    slices, first = [], 0
    for number, count in counts.items():
        concept = dataset.concepts[number]
        own = buckets[first : first + count]
        is_single = is_cached and transform_count(concept) == 1
        slices.append(
            ConceptSlice(
                first=first,
                count=count,
                per_epoch=trained if concept.matches_training else per_epoch[number],
                seed=derive(concept.seed, "rounds", concept.name),
                transform_at=_first_transform if is_single else transform_at,
                bucket_at=partial(_bucket_of, buckets),
                period=1 if all(len(set(each)) == 1 for each in own) else len(concept.resolutions),
            )
        )
        first += count
    return slices


# Functions of the module, so that another process can be given a plan.
def _first_transform(_index: int, _repeat: int) -> int:
    return 0


def _transform_at(
    items: Sequence[Item],
    concepts: Sequence[ConceptSettings],
    is_cached: bool,
    index: int,
    repeat: int,
) -> int:
    item = items[index]
    return transform_number(item, concepts[item.concept], repeat, is_cached=is_cached)


def _bucket_of(buckets: Sequence[tuple[Bucket, ...]], index: int, number: int) -> Bucket:
    return buckets[index][number % len(buckets[index])]


def all_buckets(
    items: Iterable[Item], concepts: Sequence[ConceptSettings]
) -> list[tuple[Bucket, ...]]:
    """Return the buckets of images at each resolution of their concepts."""
    # Many images have one size, and nothing else matters.
    known: dict[tuple[int, int, int], tuple[Bucket, ...]] = {}
    result = []
    for item in items:
        key = (item.concept, item.width, item.height)
        if key not in known:
            concept = concepts[item.concept]
            numbers = range(len(concept.resolutions))
            known[key] = tuple(bucket_at(item, concept, number) for number in numbers)
        result.append(known[key])
    return result


def _chunks(values: Sequence[T], length: int) -> tuple[tuple[T, ...], ...]:
    """Split a sequence into pieces of a length; the last one may be shorter."""
    starts = range(0, len(values), length)
    return tuple(tuple(values[start : start + length]) for start in starts)
