"""Buckets keep area, shape and what the VAE and UNet need of a side."""

import math

import pytest

from onetrainer.buckets import Bucket, bucket_for, bucket_step, buckets, crop_geometry

RESOLUTIONS = [*range(64, 1032, 8), 1280, 1536, 2048, 4096]


def test_buckets_of_512_are_these():
    wide = [(bucket.width, bucket.height) for bucket in buckets(512)[8:]]
    assert wide == [
        (512, 512),
        (576, 448),
        (640, 384),
        (704, 384),
        (768, 320),
        (832, 320),
        (896, 320),
        (960, 256),
        (1024, 256),
    ]


def test_buckets_keep_sides_area_and_symmetry():
    for resolution in RESOLUTIONS:
        step = bucket_step(resolution)
        assert step % 8 == 0
        for bucket in buckets(resolution):
            long, short = max(bucket.width, bucket.height), min(bucket.width, bucket.height)
            assert long % step == short % step == 0
            # The short side is the nearest multiple, so it is off by half a step at most; a
            # square's two sides are.
            square = step * resolution + step**2 / 4
            slack = square if long == short else step * long / 2
            assert abs(long * short - resolution**2) <= slack
            assert Bucket(bucket.height, bucket.width) in buckets(resolution)


def test_buckets_reach_to_about_four_to_one():
    for resolution in RESOLUTIONS:
        widest = buckets(resolution)[-1]
        assert 3 <= widest.width / widest.height <= 5


def test_square_picture_gets_square_bucket_at_every_resolution():
    for resolution in RESOLUTIONS:
        bucket = bucket_for(777, 777, resolution)
        assert bucket.width == bucket.height
        assert abs(bucket.width - resolution) <= bucket_step(resolution) / 2


@pytest.mark.parametrize(
    ("size", "expected"),
    [((1920, 1080), (704, 384)), ((1080, 1920), (384, 704)), ((8000, 1000), (1024, 256))],
)
def test_bucket_for_known_shapes_at_512(size, expected):
    assert bucket_for(*size, 512) == Bucket(*expected)


def test_bucket_is_nearest_in_ratio():
    def distance(bucket, width, height):
        ratio = (bucket.width / bucket.height) / (width / height)
        return max(ratio, 1 / ratio)

    for resolution in (64, 256, 512, 1000):
        for tenth in range(2, 50):
            size = (100 * tenth, 1000)
            chosen = bucket_for(*size, resolution)
            best = min(distance(bucket, *size) for bucket in buckets(resolution))
            assert math.isclose(distance(chosen, *size), best)


def test_crop_covers_bucket_keeps_shape_and_is_centred():
    for bucket in buckets(512):
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


def test_picture_of_the_buckets_size_is_left_alone():
    crop = crop_geometry(704, 384, Bucket(704, 384))
    assert (crop.width, crop.height, crop.box) == (704, 384, (0, 0, 704, 384))
