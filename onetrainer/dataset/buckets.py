"""Buckets: the few picture sizes a run trains on, and how a picture is fitted into one."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

MAX_SIDE_RATIO = 2
"""The longest side, as a multiple of the resolution: buckets reach from about 1:4 to 4:1, as near
as steps allow. Pictures that are longer still lose their ends."""

ASPECT_STEPS = 8
"""How many shapes there are beyond the square, each way, where steps are fine enough. With more of
them less is cut off, and fewer pictures share a size, so that batches become smaller."""

MIN_RESOLUTION = 64
"""The smallest resolution that small pictures are brought to: eight of a latent's cells a side,
which the UNet halves three times."""


@dataclass(frozen=True, order=True)
class Bucket:
    """A size in pixels that pictures are scaled and cropped to."""

    width: int
    height: int


@dataclass(frozen=True)
class CropGeometry:
    """How an upright picture becomes its bucket: scale to (width, height), then cut.

    left, top: the upper left corner, in the scaled picture, of the bucket-sized cut.
    """

    width: int
    height: int
    left: int
    top: int
    bucket: Bucket

    @property
    def box(self) -> tuple[int, int, int, int]:
        """The cut as (left, top, right, bottom), in pixels of the scaled picture."""
        return (
            self.left,
            self.top,
            self.left + self.bucket.width,
            self.top + self.bucket.height,
        )


@dataclass(frozen=True, slots=True)
class Magnification:
    """By how much a picture is enlarged beyond what covers its bucket.

    zoom: a factor of 1 or more. angle: in degrees, how far the cut is turned, up to 45 either way;
    the picture is enlarged until the turned cut lies within it.
    """

    zoom: float = 1.0
    angle: float = 0.0


NO_MAGNIFICATION = Magnification()


@cache
def buckets(resolution: int, step: int) -> tuple[Bucket, ...]:
    """Every bucket of about resolution² pixels, from the tallest to the widest.

    Sides are multiples of step. Long sides go evenly from the square's to twice the resolution; a
    short side is what brings the area nearest to resolution², the lower of two equally near ones
    for memory's sake: the area is off by half a step times the long side at most.
    """
    square = _nearest(resolution, step)
    reach = max(square, _nearest(MAX_SIDE_RATIO * resolution, step))
    stride = max(step, _nearest(resolution / ASPECT_STEPS, step))
    count = max(1, (reach - square) // stride)
    wide = {Bucket(square, square)}
    for number in range(1, count + 1):
        long = square + _nearest((reach - square) * number / count, step)
        wide.add(Bucket(long, min(_nearest(resolution**2 / long, step), square)))
    every = wide | {Bucket(bucket.height, bucket.width) for bucket in wide}
    return tuple(sorted(every, key=lambda bucket: (bucket.width / bucket.height, bucket.width)))


def nearest_bucket(width: int, height: int, resolution: int, step: int) -> Bucket:
    """The bucket whose shape, as a ratio, is nearest to that of an upright picture."""
    shape = math.log(width / height)
    shapes, every = _log_aspects(resolution, step)
    above = bisect_left(shapes, shape)
    if above == 0 or above == len(shapes):
        return every[min(above, len(shapes) - 1)]
    is_nearer = shapes[above] - shape < shape - shapes[above - 1]
    return every[above if is_nearer else above - 1]


def limited_bucket(
    width: int,
    height: int,
    resolution: int,
    step: int,
    *,
    limit: float,
    magnification: Magnification = NO_MAGNIFICATION,
) -> Bucket:
    """The largest bucket that a picture fills when it is enlarged `limit` times at most.

    Of smaller resolutions in eighths of the given one; of the smallest there is if even that needs
    more. closer: the most that the picture is enlarged beyond covering, which counts as well.
    """
    for rung in fallback_resolutions(resolution, step):
        bucket = nearest_bucket(width, height, rung, step)
        if cover_scale(width, height, bucket, magnification) <= limit:
            return bucket
    return bucket


def fixed_bucket(
    width: int,
    height: int,
    sizes: Sequence[Bucket],
    *,
    limit: float = 0,
    magnification: Magnification = NO_MAGNIFICATION,
) -> Bucket:
    """The one of some sizes whose shape is nearest to that of an upright picture.

    Of several of that shape the largest that needs no enlarging, else the smallest. limit: how many
    times the picture may be enlarged, 0 for any: sizes that need more are passed over, whatever
    their shape. If all of them do, it is the one that needs least.
    """
    scales = {size: cover_scale(width, height, size, magnification) for size in sizes}
    within = [size for size in scales if not limit or scales[size] <= limit]
    shape = math.log(width / height)

    def rank(size: Bucket) -> tuple[float, bool, float]:
        is_larger = scales[size] > 1
        return abs(_log_aspect(size) - shape), is_larger, scales[size] * (1 if is_larger else -1)

    if not within:
        return min(sizes, key=lambda size: (scales[size], rank(size)))
    return min(within, key=rank)


@cache
def fallback_resolutions(resolution: int, step: int) -> tuple[int, ...]:
    """The resolutions that small pictures are brought to instead, from the given one down.

    In eighths of it, then in halves of what is left, to SMALLEST; multiples of step all but the
    first.
    """
    eighths = (
        _nearest(resolution * part / ASPECT_STEPS, step) for part in range(ASPECT_STEPS - 1, 0, -1)
    )
    halves = (_nearest(resolution / 2**power, step) for power in range(4, 8))
    found = [resolution]
    for each in (*eighths, *halves):
        if MIN_RESOLUTION <= each < found[-1]:
            found.append(each)
    return tuple(found)


def cover_scale(
    width: int, height: int, bucket: Bucket, magnification: Magnification = NO_MAGNIFICATION
) -> float:
    """How many times a picture is enlarged to fill a bucket, at any angle up to closer's."""
    across, down = _bounding_size(bucket, magnification.angle, is_most=True)
    return magnification.zoom * max(across / width, down / height)


def scaled_size(
    width: int, height: int, bucket: Bucket, magnification: Magnification = NO_MAGNIFICATION
) -> tuple[int, int]:
    """The size of the smallest scaling of an upright picture that leaves nothing empty.

    Whole numbers throughout where nothing is enlarged further, so that every machine agrees.
    """
    if magnification == NO_MAGNIFICATION:
        if width * bucket.height <= height * bucket.width:
            return bucket.width, max(bucket.height, _divide(height * bucket.width, width))
        return max(bucket.width, _divide(width * bucket.height, height)), bucket.height
    # A turned cut seldom begins at a whole pixel: one more leaves a place for it.
    spare = 1 if magnification.angle else 0
    across, down = (math.ceil(side) + spare for side in _bounding_size(bucket, magnification.angle))
    scale = magnification.zoom * max(across / width, down / height)
    return max(across, round(width * scale)), max(down, round(height * scale))


def crop_range(length: int, bucket: Bucket, angle: float, *, is_across: bool) -> tuple[int, int]:
    """The first and the last place where a cut may begin, along one side of a scaled picture.

    length: of that side, as `scaled_size` gives it for the same angle.
    """
    own = bucket.width if is_across else bucket.height
    if not angle:
        return 0, length - own
    # By how much the turned cut reaches beyond its own side, at each end.
    beyond = (_bounding_size(bucket, angle)[0 if is_across else 1] - own) / 2
    return math.ceil(beyond), math.floor(length - own - beyond)


def crop_geometry(width: int, height: int, bucket: Bucket) -> CropGeometry:
    """The smallest scaling of an upright picture that covers the bucket, cut at its center."""
    wide, high = scaled_size(width, height, bucket)
    return CropGeometry(wide, high, (wide - bucket.width) // 2, (high - bucket.height) // 2, bucket)


def _bounding_size(bucket: Bucket, angle: float, *, is_most: bool = False) -> tuple[float, float]:
    """Width and height of what a turned cut lies in, at least those of the cut itself.

    is_most: the most that any angle up to this one takes.
    """
    if not angle:
        return bucket.width, bucket.height
    radians = math.radians(abs(angle))
    return (
        _bounding_side(bucket.width, bucket.height, radians, is_most=is_most),
        _bounding_side(bucket.height, bucket.width, radians, is_most=is_most),
    )


def _bounding_side(along: int, across: int, radians: float, *, is_most: bool) -> float:
    # Highest where the rectangle's diagonal lies along; beyond that the cut itself may be longer.
    at = min(radians, math.atan2(across, along)) if is_most else radians
    return max(along, along * math.cos(at) + across * math.sin(at))


@cache
def _log_aspects(resolution: int, step: int) -> tuple[tuple[float, ...], tuple[Bucket, ...]]:
    every = buckets(resolution, step)
    return tuple(map(_log_aspect, every)), every


def _nearest(length: float, step: int) -> int:
    """The multiple of step nearest to length, the lower of two, never 0."""
    return max(step, step * math.ceil(length / step - 0.5))


def _divide(numerator: int, denominator: int) -> int:
    """The nearest whole quotient; whole numbers throughout, so that every machine agrees."""
    return (2 * numerator + denominator) // (2 * denominator)


def _log_aspect(bucket: Bucket) -> float:
    return math.log(bucket.width / bucket.height)
