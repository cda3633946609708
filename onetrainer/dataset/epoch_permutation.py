"""How pictures take turns: all of them, then all again in another order, without an end."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from onetrainer.dataset.buckets import Bucket
from onetrainer.seeds import derive, shuffled


@dataclass(frozen=True)
class Portion:
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
    number_at: Callable[[int, int], int]
    bucket_at: Callable[[int, int], Bucket]
    period: int = 0


class Rounds:
    """The endless order of a portion: all pictures, then all again in another order."""

    def __init__(self, portion: Portion) -> None:
        self.portion = portion
        self._order: tuple[int, list[int]] = (-1, [])
        self._whole: dict[int, Counter[Bucket]] = {}

    @property
    def period(self) -> int:
        """After how many epochs one has as many pictures of each bucket again; 0 for never."""
        # Of whole rounds alone: what a part of one shows is another part every time.
        return 0 if self.portion.per_epoch % self.portion.count else self.portion.period

    def positions(self, epoch: int) -> range:
        """An epoch's part of the order."""
        each = self.portion.per_epoch
        return range(math.floor(epoch * each), math.floor((epoch + 1) * each))

    def taken(self, epoch: int) -> Iterator[tuple[int, int, Bucket]]:
        """What an epoch shows: place, turn, bucket."""
        for turn, places in self._parts(epoch):
            for place in places:
                item = self.portion.first + place
                yield item, turn, self._bucket(item, turn)

    def counts(self, epoch: int) -> Counter[Bucket]:
        """How many pictures of each bucket an epoch shows."""
        counts: Counter[Bucket] = Counter()
        for turn, places in self._parts(epoch):
            counts.update(self._counted(places, turn))
        return counts

    def _parts(self, epoch: int) -> Iterator[tuple[int, Sequence[int]]]:
        """What an epoch has of each round: the round's number, and places within the portion."""
        count, positions = self.portion.count, self.positions(epoch)
        for number in range(positions.start // count, -(-positions.stop // count)):
            low = max(positions.start - number * count, 0)
            high = min(positions.stop - number * count, count)
            # The order within an epoch is drawn apart; of a whole round none is needed here.
            whole = (low, high) == (0, count)
            yield number, range(count) if whole else self._ordered(number)[low:high]

    def _ordered(self, number: int) -> list[int]:
        if number != self._order[0]:
            seed = derive(self.portion.seed, "round", number)
            self._order = number, shuffled(range(self.portion.count), seed)
        return self._order[1]

    def _counted(self, places: Sequence[int], turn: int) -> Counter[Bucket]:
        phase = turn % self.portion.period if self.portion.period else turn
        is_whole = len(places) == self.portion.count and bool(self.portion.period)
        if is_whole and phase in self._whole:
            return self._whole[phase]
        counts = Counter(self._bucket(self.portion.first + place, turn) for place in places)
        if is_whole:
            self._whole[phase] = counts
        return counts

    def _bucket(self, item: int, turn: int) -> Bucket:
        number = 0 if self.portion.period == 1 else self.portion.number_at(item, turn)
        return self.portion.bucket_at(item, number)
