"""Loss curve of any length in bounded memory: buckets of lowest, highest and mean."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

_MAX_BUCKETS = 2048
_LEAST_SPREAD = 1e-6  # of distances, below which there is no line through the points


@dataclass(frozen=True)
class Point:
    """Neighboring steps of a curve. step: the last of them."""

    step: int
    lowest: float
    highest: float
    mean: float


class Curve:
    """Values by step; neighboring buckets are merged in pairs when there are too many."""

    def __init__(self) -> None:
        self._buckets: list[Point] = []
        self._open: list[tuple[int, float]] = []
        self._stride = 1

    def __len__(self) -> int:
        return len(self._buckets) + bool(self._open)

    def append(self, step: int, value: float) -> None:
        """Add the value of the next step; a value that is not finite leaves a gap."""
        if not math.isfinite(value):
            return
        self._open.append((step, value))
        if len(self._open) < self._stride:
            return
        self._buckets.append(_bucket(self._open))
        self._open = []
        if len(self._buckets) >= _MAX_BUCKETS:
            self._halve()

    def points(self) -> list[Point]:
        """Return the curve so far, oldest first, about two thousand points at most."""
        return [*self._buckets, _bucket(self._open)] if self._open else list(self._buckets)

    def _halve(self) -> None:
        self._buckets = thin(self._buckets, len(self._buckets) // 2)
        self._stride *= 2


def smooth(points: list[Point], strength: float) -> list[float]:
    """Return a smoothed mean at each point. strength: 0 (raw) to below 1 (very smooth).

    At each point a line is fitted to all of them, whose weights fall exponentially to both sides,
    and read there. A moving average of what was before would lag: above a loss that falls. Source:
    local linear regression, Cleveland 1979, doi:10.1080/01621459.1979.10481038, without its
    robust weights.
    """
    values = [point.mean for point in points]
    lowest, highest = min(values, default=0.0), max(values, default=0.0)
    before = _moments(values, strength)
    after = reversed(list(_moments(values[::-1], strength)))
    smoothed = []
    for value, past, future in zip(values, before, after, strict=True):
        # The point itself, at a distance of 0, is in both; distances of the future are positive.
        weight = past.weight + future.weight - 1
        total = past.total + future.total - value
        distance, product = future.distance - past.distance, future.product - past.product
        square = past.square + future.square
        spread = weight * square - distance**2
        is_line = spread > _LEAST_SPREAD * weight**2
        fitted = (square * total - distance * product) / spread if is_line else total / weight
        # Where values fall steeply to zero, a line would go on below it.
        smoothed.append(min(max(fitted, lowest), highest))
    return smoothed


class _Moments(NamedTuple):
    """Weighted sums over a point and those before it, by their distance to it in points."""

    weight: float = 0.0
    distance: float = 0.0
    square: float = 0.0
    total: float = 0.0
    product: float = 0.0


def _moments(values: Iterable[float], strength: float) -> Iterator[_Moments]:
    """Yield the sums at each value, from those at the one before, which is one nearer to it."""
    sums = _Moments()
    for value in values:
        weight, distance, square, total, product = (strength * each for each in sums)
        sums = _Moments(
            1 + weight,
            distance + weight,
            square + 2 * distance + weight,
            value + total,
            product + total,
        )
        yield sums


def thin(points: list[Point], most: int) -> list[Point]:
    """Return the curve with at most `most` points, one per column of a plot."""
    if len(points) <= most:
        return points
    size = -(-len(points) // most)
    chunks = (points[start : start + size] for start in range(0, len(points), size))
    return [_merge(chunk) for chunk in chunks]


def ticks(lowest: float, highest: float, most: int) -> list[float]:
    """Return about `most` round numbers between two values, for an axis."""
    span = highest - lowest
    # Values that differ by rounding alone have no numbers between them.
    if span <= 1e-9 * max(abs(lowest), abs(highest)) or most < 1:
        return [lowest]
    rough = span / most
    exponent = math.floor(math.log10(rough))
    power = 10.0**exponent
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(lowest / step - 1e-9)
    last = math.floor(highest / step + 1e-9)
    return [round(number * step, max(12, 3 - exponent)) for number in range(first, last + 1)]


def _bucket(values: list[tuple[int, float]]) -> Point:
    numbers = [value for _, value in values]
    return Point(values[-1][0], min(numbers), max(numbers), sum(numbers) / len(numbers))


def _merge(points: list[Point]) -> Point:
    return Point(
        points[-1].step,
        min(point.lowest for point in points),
        max(point.highest for point in points),
        sum(point.mean for point in points) / len(points),
    )
