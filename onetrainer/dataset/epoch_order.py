"""The endless order of each concept's images, of which every epoch takes a part."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from onetrainer.dataset.buckets import Bucket
from onetrainer.seeds import derive, shuffled


@dataclass(frozen=True)
class ConceptSlice:
    """Consecutive dataset images that are used equally often: those of one concept.

    Attributes:
        first: index of the first image.
        count: number of images.
        per_epoch: images used per epoch; with a fraction, some epochs use one more.
        seed: seed of the permutations.
        transform_at: transform number of an image by (index, repeat).
        bucket_at: bucket of an image by (index, transform number).
        period: number of repeats after which buckets recur; 1 if they never change, 0 if unknown.
    """

    first: int
    count: int
    per_epoch: Fraction
    seed: int
    transform_at: Callable[[int, int], int]
    bucket_at: Callable[[int, int], Bucket]
    period: int = 0


class EpochPermutation:
    """The endless order of a slice: a permutation of all its images, then another one."""

    def __init__(self, concept_slice: ConceptSlice) -> None:
        self.concept_slice = concept_slice
        self._order: tuple[int, list[int]] = (-1, [])
        self._whole: dict[int, Counter[Bucket]] = {}

    @property
    def period(self) -> int:
        """Number of epochs after which bucket counts recur; 0 for never."""
        # Only for whole permutations: a part of one contains different images each time.
        own = self.concept_slice
        return 0 if own.per_epoch % own.count else own.period

    def positions(self, epoch: int) -> range:
        """Return the positions of an epoch within the endless order."""
        each = self.concept_slice.per_epoch
        return range(math.floor(epoch * each), math.floor((epoch + 1) * each))

    def entries(self, epoch: int) -> Iterator[tuple[int, int, Bucket]]:
        """Yield the index, repeat and bucket of each image of an epoch."""
        for repeat, places in self._slices(epoch):
            for index in places:
                item = self.concept_slice.first + index
                yield item, repeat, self._bucket_of(item, repeat)

    def counts(self, epoch: int) -> Counter[Bucket]:
        """Return the number of images of each bucket in an epoch."""
        counts: Counter[Bucket] = Counter()
        for repeat, places in self._slices(epoch):
            counts.update(self._bucket_counts(places, repeat))
        return counts

    def _slices(self, epoch: int) -> Iterator[tuple[int, Sequence[int]]]:
        """Yield the number of each permutation and the images that an epoch takes of it."""
        count, positions = self.concept_slice.count, self.positions(epoch)
        for number in range(positions.start // count, -(-positions.stop // count)):
            low = max(positions.start - number * count, 0)
            high = min(positions.stop - number * count, count)
            # Epochs are shuffled separately, so a whole permutation needs no order here.
            whole = (low, high) == (0, count)
            yield number, range(count) if whole else self._permutation(number)[low:high]

    def _permutation(self, number: int) -> list[int]:
        if number != self._order[0]:
            seed = derive(self.concept_slice.seed, "round", number)
            self._order = number, shuffled(range(self.concept_slice.count), seed)
        return self._order[1]

    def _bucket_counts(self, places: Sequence[int], repeat: int) -> Counter[Bucket]:
        own = self.concept_slice
        is_whole = len(places) == own.count and bool(own.period)
        if is_whole and repeat % own.period in self._whole:
            return self._whole[repeat % own.period]
        counts = Counter(self._bucket_of(own.first + index, repeat) for index in places)
        if is_whole:
            self._whole[repeat % own.period] = counts
        return counts

    def _bucket_of(self, item: int, repeat: int) -> Bucket:
        own = self.concept_slice
        return own.bucket_at(item, 0 if own.period == 1 else own.transform_at(item, repeat))
