"""Buckets: the few picture sizes a run trains on, and how a picture is fitted into one."""

import math
from dataclasses import dataclass
from functools import cache

REACH = 2
"""The longest side, as a multiple of the resolution: buckets reach from about 1:4 to 4:1, as near
as steps allow. Pictures that are longer still lose their ends."""


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


def bucket_step(resolution: int) -> int:
    """What every side of a bucket is a multiple of, in pixels.

    64 keeps every level of the UNet of SD 1.5 even (8 for the VAE, 8 for three halvings). Small
    resolutions, which only tests and small models use, step finer, for the same eighth of a side.
    """
    if resolution >= 256:
        return 64
    return 16 if resolution >= 128 else 8


@cache
def buckets(resolution: int) -> tuple[Bucket, ...]:
    """Every bucket of about resolution² pixels, from the tallest to the widest.

    For every long side from the square to four times as long as high, the short side that brings
    the area nearest to resolution²; the smaller of two equally near ones, for memory's sake.
    """
    step, area = bucket_step(resolution), resolution**2
    square = _nearest(resolution, step)
    wide = {Bucket(square, square)}
    for long in range(square + step, _nearest(REACH * resolution, step) + 1, step):
        wide.add(Bucket(long, min(_nearest(area / long, step), square)))
    every = wide | {Bucket(bucket.height, bucket.width) for bucket in wide}
    return tuple(sorted(every, key=lambda bucket: (bucket.width / bucket.height, bucket.width)))


def bucket_for(width: int, height: int, resolution: int) -> Bucket:
    """The bucket whose shape, as a ratio, is nearest to that of an upright picture."""
    shape = math.log(width / height)
    return min(buckets(resolution), key=lambda bucket: abs(_shape(bucket) - shape))


def crop_geometry(width: int, height: int, bucket: Bucket) -> CropGeometry:
    """The smallest scaling of an upright picture that covers the bucket, cut at its centre."""
    if width * bucket.height <= height * bucket.width:
        scaled_width = bucket.width
        scaled_height = max(bucket.height, _divide(height * bucket.width, width))
    else:
        scaled_width = max(bucket.width, _divide(width * bucket.height, height))
        scaled_height = bucket.height
    return CropGeometry(
        width=scaled_width,
        height=scaled_height,
        left=(scaled_width - bucket.width) // 2,
        top=(scaled_height - bucket.height) // 2,
        bucket=bucket,
    )


def _nearest(length: float, step: int) -> int:
    """The multiple of step nearest to length, the lower of two, never 0."""
    return max(step, step * math.ceil(length / step - 0.5))


def _divide(numerator: int, denominator: int) -> int:
    """The nearest whole quotient; whole numbers throughout, so that every machine agrees."""
    return (2 * numerator + denominator) // (2 * denominator)


def _shape(bucket: Bucket) -> float:
    return math.log(bucket.width / bucket.height)
