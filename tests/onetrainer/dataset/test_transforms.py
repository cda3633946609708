"""A view follows from seed, name and number alone, and does what the settings say."""

from collections import Counter
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.config.data.augmentation import Augmentation
from onetrainer.config.data.buckets import Buckets, Size
from onetrainer.dataset.buckets import Bucket, CropGeometry, nearest_bucket
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import (
    ImageTransform,
    cropped_fraction,
    image_transform,
    plain_transform,
    size_conditioning,
    transform_count,
    transform_number,
    upscale_factor,
    variations,
)
from tests.each import each

EVERYTHING = Augmentation(
    flip="random",
    flip_vertical="random",
    rotate=20,
    crop_jitter=0.2,
    brightness=0.1,
    contrast=0.2,
    saturation=0.3,
    hue=40,
)
AMOUNTS = {"angle": 20, "brightness": 0.1, "contrast": 0.2, "saturation": 0.3, "hue": 40}


def folder(resolutions=(512,), buckets=None, seed=0, **augmentation):
    return ConceptSettings(
        setting_path="data.folder",
        name="pictures",
        folder=Path("pictures"),
        seed=seed,
        resolutions=resolutions,
        buckets=Buckets(**buckets or {}),
        augmentation=Augmentation(**augmentation),
    )


def item(width=1000, height=700, name="a.png", **more):
    return Item(Path(name), ("",), width, height, name=name, **more)


def changed(**more):
    return replace(folder(), augmentation=EVERYTHING.model_copy(update=more))


def test_transform_without_settings_is_scaled_and_cut_at_the_center():
    # 1000 × 700 is nearest to 640 × 408; 640 / 1000 · 700 = 448, of which 40 are cut off.
    seen = image_transform(item(), folder(), 0)
    assert seen == ImageTransform(CropGeometry(640, 448, 0, 20, Bucket(640, 408)))
    assert seen == plain_transform(item(), folder())
    assert (upscale_factor(item(), seen), cropped_fraction(item(), seen)) == (0.64, 1 - 408 / 448)
    assert size_conditioning(item(), seen) == (700, 1000, 20, 0, 408, 640)


@each(
    ("settings", "cached"),
    [
        ({}, 1),
        ({"flip": "always", "flip_vertical": "always"}, 1),
        ({"flip": "random"}, 2),
        ({"flip": "random", "flip_vertical": "random"}, 4),
        ({"hue": 3}, 4),
        ({"flip": "random", "rotate": 3}, 4),
        ({"rotate": 3, "fixed": True}, 1),
        ({"rotate": 3, "fixed": True, "flip": "random"}, 2),
        ({"variations": 7}, 1),
        ({"variations": 7, "crop_jitter": 0.1}, 7),
        ({"buckets": {"crop": "random"}}, 4),
        ({"buckets": {"crop": "focus"}}, 1),
    ],
)
def test_variations_are_as_many_as_settings_ask_for(settings, cached):
    concept = folder(**settings)
    assert variations(concept, is_cached=True) == transform_count(concept) == cached
    assert variations(concept, is_cached=False) == 1
    assert transform_count(replace(concept, resolutions=(512, 768, 1024))) == 3 * cached


def test_each_round_of_repeats_shows_every_transform_once_with_resolutions_in_turn():
    concept = folder(resolutions=(512, 640, 768), hue=3)
    orders = set()
    for name in "abcdefgh":
        repeats = [
            transform_number(item(name=name), concept, repeat, is_cached=True)
            for repeat in range(60)
        ]
        for first in range(0, 60, 12):
            assert sorted(repeats[first : first + 12]) == list(range(12))
        for first in range(0, 60, 3):
            assert sorted(number % 3 for number in repeats[first : first + 3]) == [0, 1, 2]
        assert all(a % 3 != b % 3 for a, b in pairwise(repeats))
        orders |= {tuple(repeats[:12]), tuple(repeats[12:24])}
    assert len(orders) == 16


def test_uncached_turn_is_a_variation_of_its_own():
    concept = folder(resolutions=(512, 768), hue=3)
    numbers = [transform_number(item(), concept, repeat, is_cached=False) for repeat in range(9)]
    assert [number // 2 for number in numbers] == list(range(9))
    first = numbers[0] % 2
    assert [number % 2 for number in numbers] == [(first + repeat) % 2 for repeat in range(9)]
    still = folder(resolutions=(512, 768))
    assert {transform_number(item(), still, repeat, is_cached=False) for repeat in range(9)} == {
        0,
        1,
    }


def test_two_variations_of_flipped_images_are_both_sides():
    concept = folder(flip="random")
    firsts = 0
    for number in range(200):
        pair = [image_transform(item(name=f"{number}"), concept, variation) for variation in (0, 1)]
        assert sorted(one.flip for one in pair) == [False, True]
        assert pair[0] == replace(pair[1], flip=pair[0].flip)
        firsts += pair[0].flip
    assert 60 < firsts < 140


def test_transform_depends_on_seed_name_and_variation_and_not_on_where_files_are():
    concept = changed()
    seen = image_transform(item(), concept, 3)
    assert (
        image_transform(replace(item(), path=Path("elsewhere/b.png"), concept=5), concept, 3)
        == seen
    )
    others = [
        image_transform(item(name="b.png"), concept, 3),
        image_transform(item(), replace(concept, seed=1), 3),
        image_transform(item(), concept, 4),
    ]
    assert len({seen.angle, *(other.angle for other in others)}) == 4


def test_variation_is_the_same_at_every_resolution():
    concept = replace(changed(), resolutions=(512, 1024))
    small, large = (image_transform(item(), concept, number) for number in (2, 3))
    assert small.bucket == Bucket(640, 408)
    assert large.bucket == nearest_bucket(1000, 700, 1024, 8)
    assert replace(large, geometry=small.geometry) == small


def test_amounts_are_sampled_either_way_up_to_the_setting():
    views = [image_transform(item(name=f"{number}"), changed(), 0) for number in range(300)]
    for name, most in AMOUNTS.items():
        sampled = [getattr(one, name) for one in views]
        assert -most <= min(sampled) < -0.9 * most
        assert 0.9 * most < max(sampled) <= most
        assert abs(sum(sampled) / 300) < 0.15 * most  # 4.5 times the deviation of such a mean
    assert len({one.key() for one in views}) == 300


def test_setting_one_change_more_leaves_the_others_as_they_were():
    bare = changed(hue=0, crop_jitter=0)
    for number in range(8):
        seen, whole = (
            image_transform(item(), bare, number),
            image_transform(item(), changed(), number),
        )
        assert (seen.angle, seen.saturation) == (whole.angle, whole.saturation)
        assert seen.hue == 0 != whole.hue


def test_fixed_changes_are_whole_and_the_same_for_all():
    concept = changed(fixed=True, flip="off", flip_vertical="always")
    seen = image_transform(item(), concept, 0)
    assert {name: getattr(seen, name) for name in AMOUNTS} == AMOUNTS
    assert (seen.flip, seen.flip_vertical) == (False, True)
    assert (
        image_transform(item(name="b.png"), concept, 5) == plain_transform(item(), concept) == seen
    )


def test_random_cut_begins_anywhere():
    concept = folder(buckets={"crop": "random"})
    tops = Counter(
        image_transform(item(name=f"{number}", height=650), concept, 0).geometry.top
        for number in range(900)
    )
    # 1000 × 650 becomes 640 × 416, of which 408 are seen.
    assert sorted(tops) == list(range(9))
    assert min(tops.values()) > 60


def test_closer_cut_enlarges_by_up_to_the_setting_and_begins_anywhere():
    concept = folder(crop_jitter=0.25)
    square = [
        image_transform(item(512, 512, name=f"{number}"), concept, 0) for number in range(300)
    ]
    scales = [upscale_factor(item(512, 512), one) for one in square]
    assert 1 <= min(scales) < 1.02
    assert 1.23 < max(scales) <= 1.25
    widest = max(square, key=lambda one: one.geometry.width).geometry
    assert widest.width - 512 > 115
    lefts = [one.geometry.left / max(1, one.geometry.width - 512) for one in square]
    assert min(lefts) < 0.05
    assert max(lefts) > 0.95


@each(
    ("settings", "own", "expected"),
    [
        # 1000 × 500 at 512 × 512 becomes 1024 × 512: x · 1024 - 256, from 0 to 512.
        ({}, None, 256),
        ({"focus_x": 0.3}, None, 51),
        ({"focus_x": 0.1}, None, 0),
        ({"focus_x": 0.9}, None, 512),
        ({"focus_x": 0.9}, (0.3, 0.5), 51),
        ({"crop": "center", "focus_x": 0.9}, (0.3, 0.5), 256),
    ],
)
def test_cut_lies_around_the_focus(settings, own, expected):
    buckets = {"crop": "focus", "sizes": (Size(width=512, height=512),), **settings}
    seen = item(1000, 500, focus=own)
    cut = image_transform(seen, folder(buckets=buckets), 0).geometry
    assert cut == CropGeometry(1024, 512, expected, 0, Bucket(512, 512))
    mirrored = image_transform(seen, folder(buckets=buckets, flip="always"), 0).geometry
    assert mirrored.left == 512 - expected


def test_a_closer_cut_goes_on_around_the_focus():
    buckets = {"crop": "focus", "focus_x": 0.2, "sizes": (Size(width=512, height=512),)}
    concept = folder(buckets=buckets, crop_jitter=0.25)
    cuts = [image_transform(item(2000, 500, name=f"{n}"), concept, 0).geometry for n in range(300)]
    # Where the point lies in the cut, from its left edge to its right one.
    crop_range = [(0.2 * cut.width - cut.left) / 512 for cut in cuts]
    assert 0.37 < min(crop_range) < 0.41
    assert 0.59 < max(crop_range) < 0.63
    assert max(cut.width for cut in cuts) > 2500


@each("limit", [1, 1.5])
def test_no_transform_is_enlarged_beyond_the_limit(limit):
    concept = replace(changed(), buckets=Buckets(upscale_limit=limit))
    for width, height in [(200, 200), (600, 420), (512, 512), (400, 1500), (3000, 1000)]:
        for number in range(40):
            seen = item(width, height, name=f"{number}")
            # Whole pixels, and the one that a turned cut may need, are beyond the limit.
            slack = 2 / min(width, height)
            assert upscale_factor(seen, image_transform(seen, concept, 0)) <= limit + slack


def test_keys_differ_for_all_that_changes_pixels_and_crop_keys_for_all_that_moves_them():
    plain = plain_transform(item(), folder())
    moved = [
        replace(plain, geometry=replace(plain.geometry, **{name: 7}))
        for name in ("width", "height", "left", "top")
    ]
    moved += [replace(plain, geometry=replace(plain.geometry, bucket=Bucket(640, 416)))]
    moved += [replace(plain, **{name: 1}) for name in ("flip", "flip_vertical", "angle")]
    colors = [field.name for field in fields(ImageTransform)][4:]
    adjust_colors = [replace(plain, **{name: 0.5}) for name in colors]
    assert colors == ["brightness", "contrast", "saturation", "hue"]
    assert len({one.crop_key() for one in [plain, *moved]}) == 9
    assert len({one.key() for one in [plain, *moved, *adjust_colors]}) == 13
    assert {one.crop_key() for one in adjust_colors} == {plain.crop_key()}


def test_keys_of_equal_transforms_are_equal_whether_zero_was_sampled_or_not():
    for number in range(8):
        seen = image_transform(item(name=f"{number}"), folder(contrast=0.1), 0)
        assert seen.key()[8:] == ("0.0", "0.0", repr(seen.contrast), "0.0", "0.0")
        assert all(isinstance(part, str | int) for part in seen.key())
