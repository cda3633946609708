"""Near-duplicates are found together, and others are left apart."""

from contextlib import closing

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from onetrainer.dataset import near_duplicates
from onetrainer.dataset.items import Item
from onetrainer.dataset.near_duplicates import (
    AnalysisCancelled,
    extract_features,
    group_features,
    near_duplicate_groups,
    similar_pairs,
)
from onetrainer.dataset.pixel_facts import PixelFacts
from onetrainer.images.features import Features, image_features
from onetrainer.images.image_file import ImageError
from onetrainer.images.image_index import ImageIndex
from tests.each import each
from tests.onetrainer.generated_images import as_jpeg, cut, leaves, scaled

CHANGES = {
    "smaller": lambda image: scaled(image, 0.4),
    "larger": lambda image: scaled(image, 1.7),
    "other shape": lambda image: image.resize((300, 340)),
    "saved again": lambda image: as_jpeg(image, 30),
    "brighter": lambda image: ImageEnhance.Brightness(image).enhance(1.2),
    "darker": lambda image: ImageEnhance.Brightness(image).enhance(0.7),
    "more contrast": lambda image: ImageEnhance.Contrast(image).enhance(1.3),
    "paler": lambda image: ImageEnhance.Color(image).enhance(0.8),
    "cut": lambda image: cut(image, 0.04),
    "mirrored": ImageOps.mirror,
}


def saved(folder, image, name="a.png"):
    path = folder / name
    image.save(path, compress_level=0)
    return path


def features(folder, images):
    return [
        image_features(saved(folder, image, f"{number}.png")) for number, image in enumerate(images)
    ]


def random_features(count, seed=0):
    rng = np.random.default_rng(seed)
    return [
        Features(int(first), int(second), rng.integers(0, 255, 1200, np.uint8).tobytes())
        for first, second in rng.integers(0, 2**63, (count, 2))
    ]


@each("seed", [1, 2])
def test_changed_image_is_found(tmp_path, seed):
    changed = [change(leaves(seed)) for change in CHANGES.values()]
    first, other, *found = features(tmp_path, [leaves(seed), leaves(seed + 50), *changed])
    groups = {
        name: group_features([first, other, one]) for name, one in zip(CHANGES, found, strict=True)
    }
    assert all(one == [0, 1, 0] for one in groups.values()), groups


def test_flipped_and_saved_again_is_found(tmp_path):
    images = [leaves(3), as_jpeg(ImageOps.mirror(leaves(3)), 60)]
    assert group_features(features(tmp_path, images)) == [0, 0]


def test_different_images_are_left_apart(tmp_path):
    assert group_features(features(tmp_path, map(leaves, range(12)))) == list(range(12))


def test_upside_down_is_another_image(tmp_path):
    assert group_features(features(tmp_path, [leaves(1), ImageOps.flip(leaves(1))])) == [0, 1]


def test_plain_images_are_reported_apart_by_their_color(tmp_path):
    colors = ["red", "blue", "white", "black", "gray", (250, 0, 0), "red"]
    images = [Image.new("RGB", (64 + place, 64), color) for place, color in enumerate(colors)]
    assert group_features(features(tmp_path, images)) == [0, 1, 2, 3, 4, 5, 0]


def test_image_rotated_by_its_exif_is_the_one_that_was_turned(tmp_path):
    image = leaves(4).crop((0, 0, 384, 256))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter, clockwise
    image.rotate(90, expand=True).save(tmp_path / "turned.png", exif=exif)
    upright = image_features(saved(tmp_path, image))
    assert group_features([upright, image_features(tmp_path / "turned.png")]) == [0, 0]


def test_groups_are_numbered_by_their_first_images(tmp_path):
    order = [1, 2, 1, 3, 2, 1]
    assert group_features(features(tmp_path, map(leaves, order))) == [0, 1, 0, 2, 1, 0]


def test_images_that_cannot_be_analyzed_are_groups_of_their_own(tmp_path):
    (one,) = features(tmp_path, [leaves(1)])
    assert group_features([None, one, None, one]) == [0, 1, 2, 1]
    assert group_features([]) == []


def test_many_are_compared_in_parts_with_the_same_result(monkeypatch):
    some = random_features(300)
    every = [*some, *some[::-1]]
    expected = [*range(300), *range(299, -1, -1)]
    assert group_features(every) == expected
    monkeypatch.setattr(near_duplicates, "_AT_ONCE", 700)
    monkeypatch.setattr(near_duplicates, "_CHUNK", 1)
    assert group_features(every) == expected


def test_images_come_in_their_order_with_those_that_fail(tmp_path):
    paths = [saved(tmp_path, leaves(seed), f"{seed}.png") for seed in range(12)]
    paths[5].write_bytes(paths[5].read_bytes()[:5000])
    paths.append(tmp_path / "gone.png")
    seen = []
    found = extract_features(
        paths, progress=lambda done, total: seen.append((done, total)), threads=3
    )
    assert [isinstance(one, ImageError) for one in found] == [
        path.name in ("5.png", "gone.png") for path in paths
    ]
    assert found[7] == image_features(paths[7])
    assert seen == [(done, 13) for done in range(1, 14)]


@pytest.fixture
def settled(monkeypatch):
    """Lets files be relied on that were written just now."""
    monkeypatch.setattr("onetrainer.images.header.SETTLED_NS", 0)


def damaged(items, memory):
    facts = PixelFacts(memory)
    return [reason for item in items if (reason := facts.damage(item))]


def test_a_damaged_image_leaves_the_groups_of_the_others_remembered(tmp_path, settled):
    paths = [saved(tmp_path, leaves(seed), f"{n}.png") for n, seed in enumerate([1, 2, 1, 2])]
    paths[3].write_bytes(paths[3].read_bytes()[:5000])
    items = [Item(path, ("",), 384, 384) for path in paths]
    with closing(ImageIndex(tmp_path / "cache")) as memory:
        assert damaged(items, memory) == []
        groups = near_duplicate_groups(items, memory)
        assert groups == [0, 1, 0, 2]
    with closing(ImageIndex(tmp_path / "cache")) as memory:
        assert PixelFacts(memory).groups(items) == groups
        (found,) = damaged(items, memory)
        assert PixelFacts(memory).damage(items[3]) == found
    with pytest.raises(ImageError) as error:
        image_features(paths[3])
    assert found == error.value.reason


def test_a_damaged_image_is_tried_again_and_then_known_to_be_sound(tmp_path, settled, monkeypatch):
    item = Item(saved(tmp_path, leaves(1)), ("",), 384, 384)
    with closing(ImageIndex(tmp_path / "cache")) as memory:
        with monkeypatch.context() as patched:
            # As of a Pillow that does not know this kind.
            patched.setattr("onetrainer.images.image_file.FORMATS", ("BMP",))
            near_duplicate_groups([item], memory)
        assert damaged([item], memory)
        near_duplicate_groups([item], memory)
        assert damaged([item], memory) == []


def test_too_little_memory_is_no_damage_of_an_image(tmp_path, settled, monkeypatch):
    def refuse(*_):
        raise MemoryError

    item = Item(saved(tmp_path, leaves(1)), ("",), 384, 384)
    monkeypatch.setattr("onetrainer.images.features.as_rgb", refuse)
    with closing(ImageIndex(tmp_path / "cache")) as memory:
        near_duplicate_groups([item], memory)
        assert damaged([item], memory) == []
        assert PixelFacts(memory).groups([item]) is None


def test_analysis_stops_when_asked(tmp_path):
    paths = [saved(tmp_path, leaves(1))] * 100
    seen = []
    with pytest.raises(AnalysisCancelled):
        extract_features(
            paths, progress=lambda done, _: seen.append(done), should_stop=lambda: len(seen) > 4
        )
    assert seen == [1, 2, 3, 4, 5]
    with pytest.raises(AnalysisCancelled):
        similar_pairs(random_features(3), should_stop=lambda: True)
