"""Class pictures: as many an epoch as there are pictures, each in its turn."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from modules.data.batches import BatchPlan, load_batch
from modules.data.images import load_pixels
from onetrainer.buckets import Bucket
from onetrainer.dataset_index import index_folder
from onetrainer.errors import UserError

SHAPES = [Bucket(64, 64), Bucket(72, 56), Bucket(56, 72), Bucket(128, 32)]


def some_buckets(chance, most):
    return [chance.choice(SHAPES) for _ in range(chance.randrange(1, most))]


def some_plan(seed):
    """A plan of many shapes, how many pictures it has, and all their buckets."""
    chance = random.Random(seed)
    own, prior = some_buckets(chance, 30), some_buckets(chance, 60)
    plan = BatchPlan(
        own,
        batch_size=chance.randrange(1, 5),
        accumulation=chance.randrange(1, 4),
        seed=seed,
        class_buckets=prior,
    )
    return plan, len(own), [*own, *prior]


def epochs(plan, count):
    """The steps of the first epochs."""
    found, step = [], 0
    while (epoch := plan.epoch_of(step)) < count:
        found += [[]] * (epoch + 1 - len(found))
        found[epoch] = [*found[epoch], plan.at(step)]
        step += 1
    return found


@pytest.mark.parametrize("seed", range(30))
def test_every_epoch_has_as_many_class_pictures_as_pictures(seed):
    plan, count, buckets = some_plan(seed)
    for number, steps in enumerate(epochs(plan, 5)):
        shown = [picture for step in steps for picture in step.pictures]
        assert Counter(one for one in shown if one < count) == Counter(range(count))
        assert len(shown) == 2 * count
        assert {step.epoch for step in steps} == {number}
        for step in steps:
            assert len({buckets[picture] for picture in step.pictures}) == 1


@pytest.mark.parametrize("seed", range(30))
def test_class_pictures_take_turns(seed):
    plan, count, buckets = some_plan(seed)
    seen = Counter()
    for steps in epochs(plan, 12):
        seen.update(one for step in steps for one in step.pictures if one >= count)
        often = [seen[one] for one in range(count, len(buckets))]
        assert max(often) - min(often) <= 1
    assert sum(seen.values()) == 12 * count


def test_class_pictures_come_in_another_order_every_round():
    plan = BatchPlan(
        [SHAPES[0]] * 4, batch_size=1, accumulation=1, seed=0, class_buckets=[SHAPES[0]] * 8
    )
    halves = [
        frozenset(one for step in steps for one in step.pictures if one >= 4)
        for steps in epochs(plan, 8)
    ]
    assert len(set(halves)) > 2


def test_any_step_can_be_asked_for_first():
    plan, _, _ = some_plan(3)
    run = [plan.at(step) for step in range(60)]
    for step in random.Random(0).sample(range(60), 60):
        assert some_plan(3)[0].at(step) == plan.at(step) == run[step]


def test_pictures_and_class_pictures_meet_in_a_step():
    plan = BatchPlan(
        [SHAPES[0]] * 20, batch_size=4, accumulation=1, seed=0, class_buckets=[SHAPES[0]] * 20
    )
    kinds = [{picture < 20 for picture in step.pictures} for step in epochs(plan, 1)[0]]
    assert kinds.count({True, False}) > len(kinds) / 2


def test_order_does_not_depend_on_microbatches():
    chance = random.Random(5)
    own, prior = some_buckets(chance, 30), some_buckets(chance, 60)
    plans = [
        BatchPlan(own, batch_size=a, accumulation=b, seed=1, class_buckets=prior)
        for a, b in [(6, 1), (3, 2), (1, 6)]
    ]
    for step in range(40):
        assert len({(plan.at(step).pictures, plan.at(step).epoch) for plan in plans}) == 1


@pytest.fixture
def mixed(bench, tmp_path):
    """The bench's pictures, and two class pictures of another caption."""
    folder = tmp_path / "class"
    folder.mkdir()
    for number, size in enumerate([(64, 64), (96, 48)]):
        noise = np.random.default_rng(50 + number).integers(0, 256, (*size[::-1], 3), np.uint8)
        Image.fromarray(noise).save(folder / f"c{number}.png")
        (folder / f"c{number}.txt").write_text("some thing")
    prior = index_folder(folder, resolution=64).items
    return (*bench.index().items, *(replace(item, is_prior=True) for item in prior))


def test_class_pictures_are_encoded_and_told_from_the_others(bench, mixed):
    dataset = bench.encode(items=mixed)
    assert [item.is_prior for item in dataset.items] == [False] * 5 + [True] * 2
    assert dataset.learnt == bench.index().items
    buckets = [item.bucket for item in dataset.items]
    plan = BatchPlan(buckets[:5], batch_size=2, accumulation=2, seed=0, class_buckets=buckets[5:])
    seen = set()
    for step in range(plan.steps_per_epoch):
        for number, pictures in enumerate(plan.at(step).microbatches):
            batch = load_batch(dataset, plan.at(step), number, seed=0)
            flags = tuple(picture >= 5 for picture in pictures)
            assert batch.is_prior == (flags if any(flags) else ())
            assert batch.captions == tuple(dataset.items[one].caption for one in pictures)
            expected = torch.cat([dataset.moments(one).mean for one in pictures])
            assert torch.equal(batch.moments.mean, expected)
            seen |= set(flags)
    assert seen == {True, False}


@pytest.mark.parametrize(("lost", "words"), [("c", "2 class pictures"), ("p", "5 pictures")])
def test_a_folder_of_which_nothing_can_be_read_is_told(bench, mixed, lost, words):
    for item in mixed:
        if item.path.name.startswith(lost):
            item.path.write_bytes(item.path.read_bytes()[:2000])
    with pytest.raises(UserError, match=f"None of the {words} can be read"):
        bench.encode(items=mixed)


def test_batch_holds_the_pictures_themselves_where_asked(bench):
    dataset = bench.encode(with_text=False)
    plan = BatchPlan([item.bucket for item in dataset.items], batch_size=2, accumulation=1, seed=0)
    for step in range(plan.steps_per_epoch):
        batch = load_batch(dataset, plan.at(step), 0, seed=0, with_pixels=True)
        shown = torch.stack([load_pixels(dataset.items[one]) for one in plan.at(step).pictures])
        assert torch.equal(batch.pixels, shown)
        assert batch.pixels.shape[2:] == tuple(8 * side for side in batch.moments.mean.shape[2:])
    assert load_batch(dataset, plan.at(0), 0, seed=0).pixels is None


def test_picture_that_went_away_in_the_run_is_told_in_words(bench):
    dataset = bench.encode(with_text=False)
    dataset.items[0].path.unlink()
    with pytest.raises(UserError, match=r"p0\.png: cannot be read"):
        dataset.pixels(0)
