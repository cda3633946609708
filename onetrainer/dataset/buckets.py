"""Aspect ratio buckets: the image sizes of a run, and how an image is fitted into one."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

MAX_SIDE_RATIO = 2
"""Longest side as a multiple of the resolution: buckets range from about 1:4 to 4:1. Longer images
are cropped.
"""

ASPECT_STEPS = 8
"""Number of shapes beyond the square in each direction, if the step is small enough. More of them
crop less, but fewer images share a bucket, so that batches become smaller.
"""

MIN_RESOLUTION = 64
"""Smallest resolution for small images: 8 latent pixels, which the UNet halves three times."""


@dataclass(frozen=True, order=True)
class Bucket:
    """A size in pixels that images are scaled and cropped to."""

    width: int
    height: int


@dataclass(frozen=True)
class CropGeometry:
    """How an upright image is fitted into its bucket: scale to (width, height), then crop.

    left and top are the upper left corner of the crop in the scaled image.
    """

    width: int
    height: int
    left: int
    top: int
    bucket: Bucket

    @property
    def box(self) -> tuple[int, int, int, int]:
        """The crop as (left, top, right, bottom), in pixels of the scaled image."""
        return (
            self.left,
            self.top,
            self.left + self.bucket.width,
            self.top + self.bucket.height,
        )


@dataclass(frozen=True, slots=True)
class Magnification:
    """How much an image is enlarged beyond what covers its bucket.

    zoom: a factor of 1 or more. angle: rotation of the crop in degrees, up to 45 either way. The
    image is enlarged until the rotated crop lies within it.
    """

    zoom: float = 1.0
    angle: float = 0.0


NO_MAGNIFICATION = Magnification()


@cache
def buckets(resolution: int, step: int) -> tuple[Bucket, ...]:
    """Return all buckets of about resolution² pixels, from the tallest to the widest.

    Sides are multiples of step. Long sides are spread evenly from the square's to twice the
    resolution; a short side is the one whose area is nearest to resolution², the lower of two
    equally near ones to save memory. The area is off by half a step times the long side at most.
    """
    square = _nearest(resolution, step)
    reach = max(square, _nearest(MAX_SIDE_RATIO * resolution, step))
    stride = max(step, _nearest(resolution / ASPECT_STEPS, step))
    count = max(1, (reach - square) // stride)
    wide = {Bucket(square, square)}
    for number in range(1, count + 1):
        long = square + _nearest((reach - square) * number / count, step)
        wide.add(Bucket(long, min(_nearest(resolution**2 / long, step), square)))
    candidates = wide | {Bucket(bucket.height, bucket.width) for bucket in wide}
    return tuple(
        sorted(candidates, key=lambda bucket: (bucket.width / bucket.height, bucket.width))
    )


def nearest_bucket(width: int, height: int, resolution: int, step: int) -> Bucket:
    """Return the bucket with the aspect ratio nearest to that of an upright image."""
    shape = math.log(width / height)
    shapes, candidates = _log_aspects(resolution, step)
    above = bisect_left(shapes, shape)
    if above == 0 or above == len(shapes):
        return candidates[min(above, len(shapes) - 1)]
    is_nearer = shapes[above] - shape < shape - shapes[above - 1]
    return candidates[above if is_nearer else above - 1]


def limited_bucket(
    width: int,
    height: int,
    resolution: int,
    step: int,
    *,
    limit: float,
    magnification: Magnification = NO_MAGNIFICATION,
) -> Bucket:
    """Return the largest bucket that an image fills when enlarged at most `limit` times.

    Smaller resolutions are tried in eighths of the given one, down to the smallest, which is
    returned even if it exceeds the limit. magnification is the most that augmentation enlarges the
    image, which counts as well.
    """
    for smaller in fallback_resolutions(resolution, step):
        bucket = nearest_bucket(width, height, smaller, step)
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
    """Return the one of some sizes with the aspect ratio nearest to that of an upright image.

    Among equal ratios it is the largest that needs no upscaling, else the smallest. limit is how
    many times the image may be enlarged, 0 for any: sizes that need more are excluded, and if all
    of them do, the one that needs least is returned. magnification is the most that augmentation
    enlarges the image.
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
    """Return the resolutions for small images, from the given one down to MIN_RESOLUTION.

    They go in eighths, then in halves of what is left; all but the first are multiples of step.
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
    """Return the scale at which an image covers a bucket at any angle up to the given one."""
    across, down = _bounding_size(bucket, magnification.angle, is_most=True)
    return magnification.zoom * max(across / width, down / height)


def scaled_size(
    width: int, height: int, bucket: Bucket, magnification: Magnification = NO_MAGNIFICATION
) -> tuple[int, int]:
    """Return the smallest size of an upright image that leaves no part of the bucket empty.

    Without magnification it uses integers only, so that every machine gets the same result.
    """
    if magnification == NO_MAGNIFICATION:
        if width * bucket.height <= height * bucket.width:
            return bucket.width, max(bucket.height, _divide(height * bucket.width, width))
        return max(bucket.width, _divide(width * bucket.height, height)), bucket.height
    # A rotated crop seldom begins at a whole pixel: one more makes room for it.
    spare = 1 if magnification.angle else 0
    across, down = (math.ceil(side) + spare for side in _bounding_size(bucket, magnification.angle))
    scale = magnification.zoom * max(across / width, down / height)
    return max(across, round(width * scale)), max(down, round(height * scale))


def crop_range(length: int, bucket: Bucket, angle: float, *, is_across: bool) -> tuple[int, int]:
    """Return the first and last offset of a crop along one side of a scaled image.

    length is that side as returned by `scaled_size` for the same angle.
    """
    own = bucket.width if is_across else bucket.height
    if not angle:
        return 0, length - own
    # How far the rotated crop extends beyond its own side, at each end.
    beyond = (_bounding_size(bucket, angle)[0 if is_across else 1] - own) / 2
    return math.ceil(beyond), math.floor(length - own - beyond)


def crop_geometry(width: int, height: int, bucket: Bucket) -> CropGeometry:
    """Return the smallest scaling of an upright image that covers the bucket, center-cropped."""
    wide, high = scaled_size(width, height, bucket)
    return CropGeometry(wide, high, (wide - bucket.width) // 2, (high - bucket.height) // 2, bucket)


def _bounding_size(bucket: Bucket, angle: float, *, is_most: bool = False) -> tuple[float, float]:
    """Return width and height of the box around a rotated crop, at least those of the crop itself.

    is_most: return the largest box for any angle up to this one.
    """
    if not angle:
        return bucket.width, bucket.height
    radians = math.radians(abs(angle))
    return (
        _bounding_side(bucket.width, bucket.height, radians, is_most=is_most),
        _bounding_side(bucket.height, bucket.width, radians, is_most=is_most),
    )


def _bounding_side(along: int, across: int, radians: float, *, is_most: bool) -> float:
    # Longest where the rectangle's diagonal lies along; beyond that the crop itself may be longer.
    at = min(radians, math.atan2(across, along)) if is_most else radians
    return max(along, along * math.cos(at) + across * math.sin(at))


@cache
def _log_aspects(resolution: int, step: int) -> tuple[tuple[float, ...], tuple[Bucket, ...]]:
    candidates = buckets(resolution, step)
    return tuple(map(_log_aspect, candidates)), candidates


def _nearest(length: float, step: int) -> int:
    """Return the positive multiple of step nearest to length, the lower of two."""
    return max(step, step * math.ceil(length / step - 0.5))


def _divide(numerator: int, denominator: int) -> int:
    """Return the nearest integer quotient, with integers only so that every machine agrees."""
    return (2 * numerator + denominator) // (2 * denominator)


def _log_aspect(bucket: Bucket) -> float:
    return math.log(bucket.width / bucket.height)
