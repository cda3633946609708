"""Buckets keep area, shape and what the VAE and UNet need of a side, for any target and step."""

import math
import random

import pytest

from onetrainer.dataset.buckets import (
    Bucket,
    Magnification,
    buckets,
    cover_scale,
    crop_geometry,
    crop_range,
    fallback_resolutions,
    fixed_bucket,
    limited_bucket,
    nearest_bucket,
    scaled_size,
)
from tests.close import FLOAT64, ROUNDINGS, near
from tests.each import each

STEPS = (8, 16, 32, 64)
TARGETS = [
    (resolution, step)
    for step in STEPS
    for resolution in [*range(64, 1032, 40), 1280, 2048, 4096]
    if resolution >= step
]
SHAPES = [4 ** (number / 20) for number in range(-20, 21)]
"""Width over height, evenly from 1:4 to 4:1."""


def ratio(bucket):
    return bucket.width / bucket.height


def random_sizes(count):
    """Widths and heights of 16 to 5000 pixels, up to 8:1."""
    dice = random.Random(7)
    made = []
    while len(made) < count:
        width, height = (round(16 * 312 ** dice.random()) for _ in range(2))
        if max(width, height) <= 8 * min(width, height):
            made.append((width, height))
    return made


def test_wide_buckets_of_512_in_steps_of_8_are_these():
    wide = [(bucket.width, bucket.height) for bucket in buckets(512, 8)[8:]]
    # 512² / 576 = 455.1, / 640 = 409.6, / 704 = 372.4, / 768 = 341.3, / 832 = 315.1,
    # / 896 = 292.6, / 960 = 273.1, / 1024 = 256
    assert wide == [
        (512, 512),
        (576, 456),
        (640, 408),
        (704, 376),
        (768, 344),
        (832, 312),
        (896, 296),
        (960, 272),
        (1024, 256),
    ]


def test_every_shape_has_the_area_of_the_target_up_to_half_a_step():
    """The short side is the nearest multiple of the step; of a square it is both sides."""
    for resolution, step in TARGETS:
        for shape in SHAPES:
            bucket = nearest_bucket(round(10_000 * shape), 10_000, resolution, step)
            long, short = max(bucket.width, bucket.height), min(bucket.width, bucket.height)
            square = step * resolution + step**2 / 4
            slack = square if long == short else step * long / 2
            assert abs(long * short - resolution**2) <= slack


def test_sides_are_multiples_of_the_step_and_every_bucket_has_its_twin():
    for resolution, step in TARGETS:
        every = buckets(resolution, step)
        assert all(bucket.width % step == bucket.height % step == 0 for bucket in every)
        assert {Bucket(bucket.height, bucket.width) for bucket in every} == set(every)
        assert list(every) == sorted(every, key=ratio)


def test_steps_between_shapes_are_small_where_steps_are_fine():
    """Of any image from 1:4 to 4:1 at most an eighth is cut off."""
    for resolution, step in [(512, 8), (768, 8), (1024, 8), (1024, 64), (600, 8), (2048, 64)]:
        for shape in SHAPES:
            bucket = nearest_bucket(round(10_000 * shape), 10_000, resolution, step)
            seen = min(ratio(bucket) / shape, shape / ratio(bucket))
            assert seen >= 7 / 8


def test_bucket_is_nearest_in_ratio():
    def distance(bucket, width, height):
        off = ratio(bucket) / (width / height)
        return max(off, 1 / off)

    for resolution, step in [(64, 8), (256, 64), (512, 8), (1000, 16), (1024, 64)]:
        for size in random_sizes(60):
            chosen = nearest_bucket(*size, resolution, step)
            best = min(distance(bucket, *size) for bucket in buckets(resolution, step))
            assert distance(chosen, *size) == near(best, eps=FLOAT64)


def test_rungs_go_down_to_64_in_eighths_and_then_in_halves():
    assert fallback_resolutions(1024, 64) == (1024, 896, 768, 640, 512, 384, 256, 128, 64)
    assert fallback_resolutions(512, 8) == (512, 448, 384, 320, 256, 192, 128, 64)
    assert fallback_resolutions(2048, 64) == (2048, 1792, 1536, 1280, 1024, 768, 512, 256, 128, 64)
    assert fallback_resolutions(64, 8) == (64,)


@each(
    "magnification",
    [Magnification(), Magnification(zoom=1.2), Magnification(1.1, 15), Magnification(1, 45)],
)
@each("limit", [0.5, 1, 2])
def test_limited_bucket_is_the_largest_within_the_limit(limit, magnification):
    for size in random_sizes(60):
        chosen = limited_bucket(*size, 1024, 64, limit=limit, magnification=magnification)
        offered = [nearest_bucket(*size, rung, 64) for rung in fallback_resolutions(1024, 64)]
        allowed = [one for one in offered if cover_scale(*size, one, magnification) <= limit]
        assert chosen == (allowed or offered[-1:])[0]


SIZES = [Bucket(512, 512), Bucket(1024, 1024), Bucket(512, 768), Bucket(768, 512)]


@each(
    ("size", "limit", "expected"),
    [
        ((2000, 2000), 0, (1024, 1024)),  # the largest of its shape that needs no enlarging
        ((600, 600), 0, (512, 512)),
        ((600, 600), 2, (512, 512)),
        ((300, 300), 0, (512, 512)),  # all need it; the smallest needs least
        ((300, 200), 0, (768, 512)),
        ((300, 200), 2.56, (768, 512)),  # 512 / 200
        ((600, 400), 1, (768, 512)),  # 512 × 512 needs 512 / 400 as well, and is not so near
        ((300, 300), 1, (512, 512)),  # none is small enough; this needs least
        ((500, 700), 1.2, (512, 768)),
        ((500, 700), 1.03, (512, 512)),  # 768 / 700 is above it, 512 / 500 is not
    ],
)
def test_fixed_size_is_nearest_in_shape_within_the_limit(size, limit, expected):
    assert fixed_bucket(*size, SIZES, limit=limit) == Bucket(*expected)


def test_crop_covers_bucket_keeps_shape_and_is_centered():
    for bucket in buckets(512, 64):
        for width, height in [(16, 16), (16, 128), (513, 511), (1023, 2047), (6000, 4001)]:
            crop = crop_geometry(width, height, bucket)
            assert crop.width >= bucket.width
            assert crop.height >= bucket.height
            assert crop.width == bucket.width or crop.height == bucket.height
            scale = max(bucket.width / width, bucket.height / height)
            assert abs(crop.width - scale * width) <= 0.5
            assert abs(crop.height - scale * height) <= 0.5
            left, top, right, bottom = crop.box
            assert 0 <= left <= crop.width - right <= left + 1
            assert 0 <= top <= crop.height - bottom <= top + 1


def corners(bucket, left, top, angle):
    """Where the corners of a cut lie when it is turned about its middle, as complex numbers."""
    middle = complex(left + bucket.width / 2, top + bucket.height / 2)
    turn = complex(math.cos(math.radians(angle)), math.sin(math.radians(angle)))
    halves = [
        complex(x * bucket.width / 2, y * bucket.height / 2) for x in (-1, 1) for y in (-1, 1)
    ]
    return [middle + half * turn for half in halves]


@each("angle", [0.01, 3, -17.5, 30, 45, -45])
@each("bucket", [Bucket(512, 512), Bucket(1024, 256), Bucket(384, 704)])
def test_rotated_cut_lies_within_the_image_wherever_it_may_begin(bucket, angle):
    for width, height in random_sizes(20):
        rounding = ROUNDINGS * FLOAT64 * max(width, height, bucket.width, bucket.height)
        magnification = Magnification(1.1, angle)
        wide, high = scaled_size(width, height, bucket, magnification)
        across = crop_range(wide, bucket, angle, is_across=True)
        down = crop_range(high, bucket, angle, is_across=False)
        assert 0 <= across[0] <= across[1] <= wide - bucket.width
        assert 0 <= down[0] <= down[1] <= high - bucket.height
        for left in across:
            for top in down:
                for corner in corners(bucket, left, top, angle):
                    assert -rounding <= corner.real <= wide + rounding
                    assert -rounding <= corner.imag <= high + rounding


def test_turning_enlarges_no_more_than_it_takes():
    # A square turned by 45 degrees is as wide as its diagonal: 512 · √2 = 724.08.
    # One pixel more than 725 leaves a place for it to begin.
    assert scaled_size(1000, 1000, Bucket(512, 512), Magnification(1, 45)) == (726, 726)
    # Turned by 30 degrees: 512 · (cos 30° + sin 30°) = 699.4.
    assert scaled_size(2000, 1000, Bucket(512, 512), Magnification(1, 30)) == (1402, 701)


def test_scale_up_to_an_angle_is_that_of_the_worst_angle_below_it():
    # Turned by 14 degrees 2048 × 512 is as wide as its diagonal, and by 45 no more than 1810.
    wide = cover_scale(2048, 4000, Bucket(2048, 512), Magnification(1, 45))
    assert wide == pytest.approx(math.hypot(2048, 512) / 2048)
    high = cover_scale(9000, 512, Bucket(2048, 512), Magnification(1.5, 45))
    assert high == pytest.approx(1.5 * (2048 + 512) * math.sqrt(0.5) / 512)
