"""Masks are kept as images are: read again when they change, made anew when damaged."""

import pytest
from PIL import Image

from modules.data.batches import read_batch
from onetrainer.config.data.augmentation import Augmentation
from onetrainer.dataset.batch_plan import ImageRepeat, StepPlan
from onetrainer.dataset.buckets import Bucket


def draw(bench, name, value, size=(64, 64)):
    """A mask of one gray."""
    Image.new("L", size, value).save(bench.folder / f"{name}-masklabel.png")


def step_of(*places):
    """A step of two microbatches, of images in their first repeat."""
    shown = [ImageRepeat(place, 0, 0) for place in places]
    return StepPlan(0, 0, Bucket(64, 64), ((shown[0],), tuple(shown[1:])), 1.0)


def test_batch_has_the_masks_of_its_images_and_ones_elsewhere(bench):
    draw(bench, "p0", 51)
    batch_source = bench.encode()
    assert [batch_source.images.mask(place, 0) is None for place in range(5)] == [
        False,
        *[True] * 4,
    ]
    step = step_of(2, 4, 0)
    assert read_batch(batch_source, step, 0)().mask is None
    mask = read_batch(batch_source, step, 1)().mask
    assert mask.shape == (2, 1, 8, 8)
    assert mask.mean(dim=(1, 2, 3)).tolist() == pytest.approx([1.0, 0.2])


def test_mask_of_a_changed_transform_is_cut_again_and_that_of_changed_colors_is_not(bench):
    draw(bench, "p0", 51)
    plain = bench.encode(with_text=False).images.entries["mask"].keys[0]
    keys = []
    for change in ({"brightness": 0.5}, {"flip": "always"}, {"rotate": 5.0}):
        bench.set(augmentation=Augmentation(fixed=True, **change))
        keys.append(bench.encode(with_text=False).images.entries["mask"].keys[0])
    assert keys[0] == plain
    assert len({plain, *keys}) == 3
