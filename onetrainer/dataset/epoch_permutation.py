"""How pictures take turns: all of them, then all again in another order, without an end."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from onetrainer.dataset.buckets import Bucket
from onetrainer.seeds import derive, shuffled


@dataclass(frozen=True)
class ConceptSlice:
    """Pictures that are shown equally often: those of one concept.

    first, count: their places, from first on. per_epoch: how many showings an epoch has; of a
    fraction, as many epochs more have one more. seed: of the order in which they take turns.
    number_at: a picture's view by (place, turn). bucket_at: its bucket by (place, view).
    period: after how many turns a picture's buckets come again; 1 where they never change, 0 where
    that is not known.
    """

    first: int
    count: int
    per_epoch: Fraction
    seed: int
    transform_at: Callable[[int, int], int]
    bucket_at: Callable[[int, int], Bucket]
    period: int = 0


class EpochPermutation:
    """The endless order of a portion: all pictures, then all again in another order."""

    def __init__(self, concept_slice: ConceptSlice) -> None:
        self.concept_slice = concept_slice
        self._order: tuple[int, list[int]] = (-1, [])
        self._whole: dict[int, Counter[Bucket]] = {}

    @property
    def period(self) -> int:
        """After how many epochs one has as many pictures of each bucket again; 0 for never."""
        # Of whole rounds alone: what a part of one shows is another part every time.
        return (
            0
            if self.concept_slice.per_epoch % self.concept_slice.count
            else self.concept_slice.period
        )

    def positions(self, epoch: int) -> range:
        """An epoch's part of the order."""
        each = self.concept_slice.per_epoch
        return range(math.floor(epoch * each), math.floor((epoch + 1) * each))

    def entries(self, epoch: int) -> Iterator[tuple[int, int, Bucket]]:
        """What an epoch shows: place, turn, bucket."""
        for repeat, places in self._slices(epoch):
            for place in places:
                item = self.concept_slice.first + place
                yield item, repeat, self._bucket_of(item, repeat)

    def counts(self, epoch: int) -> Counter[Bucket]:
        """How many pictures of each bucket an epoch shows."""
        counts: Counter[Bucket] = Counter()
        for repeat, places in self._slices(epoch):
            counts.update(self._bucket_counts(places, repeat))
        return counts

    def _slices(self, epoch: int) -> Iterator[tuple[int, Sequence[int]]]:
        """What an epoch has of each round: the round's number, and places within the portion."""
        count, positions = self.concept_slice.count, self.positions(epoch)
        for number in range(positions.start // count, -(-positions.stop // count)):
            low = max(positions.start - number * count, 0)
            high = min(positions.stop - number * count, count)
            # The order within an epoch is drawn apart; of a whole round none is needed here.
            whole = (low, high) == (0, count)
            yield number, range(count) if whole else self._permutation(number)[low:high]

    def _permutation(self, number: int) -> list[int]:
        if number != self._order[0]:
            seed = derive(self.concept_slice.seed, "round", number)
            self._order = number, shuffled(range(self.concept_slice.count), seed)
        return self._order[1]

    def _bucket_counts(self, places: Sequence[int], repeat: int) -> Counter[Bucket]:
        phase = repeat % self.concept_slice.period if self.concept_slice.period else repeat
        is_whole = len(places) == self.concept_slice.count and bool(self.concept_slice.period)
        if is_whole and phase in self._whole:
            return self._whole[phase]
        counts = Counter(
            self._bucket_of(self.concept_slice.first + place, repeat) for place in places
        )
        if is_whole:
            self._whole[phase] = counts
        return counts

    def _bucket_of(self, item: int, repeat: int) -> Bucket:
        number = (
            0 if self.concept_slice.period == 1 else self.concept_slice.transform_at(item, repeat)
        )
        return self.concept_slice.bucket_at(item, number)
