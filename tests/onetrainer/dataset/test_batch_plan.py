"""Which images each step shows: random portions, buckets and sizes, from any step on."""

import gc
import random
import sys
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import pairwise

import pytest

from onetrainer.dataset.batch_plan import BatchPlan, concept_slices
from onetrainer.dataset.buckets import Bucket
from onetrainer.dataset.dataset import read_dataset
from onetrainer.dataset.epoch_order import ConceptSlice
from onetrainer.dataset.transforms import image_transform
from onetrainer.presets.presets import resolve
from tests.each import each, random_cases
from tests.images import folder, shapes

SIZES = [Bucket(64, 64), Bucket(48, 88), Bucket(88, 48), Bucket(40, 104)]
ASKED = ["1", "2", "3", "10", "0.5", "1.5", "0.25", "0.001", "2.125", "7 of all", "all and 1"]
EPOCHS = 6
RANDOM = random_cases(60)


def random_plan(case):
    """The settings of a random plan: portions of random folders, and how steps are cut."""
    dice = random.Random(case)
    slices, first = [], 0
    for _ in range(dice.randint(1, 4)):
        slices.append(_slice_of(dice, first, dice.choice([1, 2, 3, 5, 17, 40])))
        first += slices[-1].count
    if dice.random() < 0.3:  # class images: as many as all others together
        shown = sum((one.per_epoch for one in slices), Fraction(0))
        slices.append(_slice_of(dice, first, dice.randint(1, 30), shown))
    sizes = {"batch_size": dice.choice([1, 2, 3, 4, 7, 64]), "accumulation": dice.randint(1, 3)}
    return slices, sizes | {"seed": dice.randrange(2**32)}


def _slice_of(dice, first, count, per_epoch=None):
    asked = dice.choice(ASKED)
    if per_epoch is None:
        numbers = {"7 of all": Fraction(7), "all and 1": Fraction(count + 1)}
        per_epoch = numbers[asked] if asked in numbers else Fraction(asked) * count
    views = dice.choice([1, 1, 3])
    table = [[dice.choice(SIZES) for _ in range(views)] for _ in range(count)]
    return ConceptSlice(
        first=first,
        count=count,
        per_epoch=per_epoch,
        seed=dice.randrange(2**32),
        transform_at=lambda item, repeat: (item + repeat) % views,
        bucket_at=lambda item, number: table[item - first][number],
        period=dice.choice([0, views]),
    )


def plan(case, **changes):
    slices, sizes = random_plan(case)
    return BatchPlan(slices, **(sizes | changes))


def epochs(plan, count=EPOCHS):
    """The steps of each of the first epochs."""
    starts = [plan.first_step(epoch) for epoch in range(count + 1)]
    return [[plan.at(step) for step in range(*pair)] for pair in pairwise(starts)]


@RANDOM
def test_each_epoch_shows_every_image_exactly_as_often_as_asked(case):
    slices, so_far = random_plan(case)[0], Counter()
    for epoch, steps in enumerate(epochs(plan(case))):
        shown = Counter(one.item for step in steps for one in step.images)
        so_far += shown
        for one in slices:
            items = range(one.first, one.first + one.count)
            if one.per_epoch % one.count == 0:
                assert {shown[item] for item in items} == {one.per_epoch // one.count}
            # Of a fraction: all of it over the epochs so far, and no image ahead of another.
            total = (epoch + 1) * one.per_epoch // 1
            assert sum(so_far[item] for item in items) == total
            assert {so_far[item] for item in items} <= {total // one.count, -(-total // one.count)}


@RANDOM
def test_an_images_repeats_are_counted_one_by_one(case):
    repeats = {}
    for steps in epochs(plan(case)):
        now = {}
        for step in steps:
            for one in step.images:
                now.setdefault(one.item, []).append(one.repeat)
        for item, own in now.items():
            repeats.setdefault(item, []).extend(sorted(own))
    assert all(own == list(range(len(own))) for own in repeats.values())


def bucket_of(slices, image):
    """The bucket of an image of a step, which has the transform that its slice gives it."""
    one = next(one for one in slices if 0 <= image.item - one.first < one.count)
    assert image.transform == one.transform_at(image.item, image.repeat)
    return one.bucket_at(image.item, image.transform)


@RANDOM
def test_a_step_takes_its_images_from_any_buckets_and_a_microbatch_from_one(case):
    slices, sizes = random_plan(case)
    full = sizes["batch_size"] * sizes["accumulation"]
    for epoch, steps in enumerate(epochs(plan(case))):
        shown = Counter()
        for step in steps:
            assert (step.epoch, step.weight) == (epoch, 1 / full)
            for microbatch in step.microbatches:
                (bucket,) = {bucket_of(slices, one) for one in microbatch}
                assert len(microbatch) <= sizes["batch_size"]
                shown[bucket] += len(microbatch)
        images = sorted((len(step.images) for step in steps), reverse=True)
        *others, fewest = images or [full]
        assert {*others} <= {full} and fewest <= full
        assert len(steps) == plan(case).steps_in(epoch)
        assert shown == plan(case).bucket_counts(epoch)
        assert sum(shown.values()) == plan(case).images_in(epoch)


@RANDOM
def test_without_mixed_shapes_a_step_holds_one_bucket_or_what_is_left_of_it(case):
    slices, sizes = random_plan(case)
    full = sizes["batch_size"] * sizes["accumulation"]
    whole = plan(case, mixes_shapes=False)
    for epoch, steps in enumerate(epochs(whole)):
        by_bucket = Counter()
        for step in steps:
            (bucket,) = {bucket_of(slices, one) for one in step.images}
            by_bucket[bucket] += 1
        counts = whole.bucket_counts(epoch)
        assert by_bucket == {bucket: -(-count // full) for bucket, count in counts.items()}
        assert whole.small_steps_in(epoch) == sum(count % full > 0 for count in counts.values())


def test_steps_of_one_bucket_are_the_same_whether_or_not_shapes_may_mix():
    for accumulation, count in ((1, 12), (3, 20), (8, 10)):
        one, other = (
            alike(count, count, batch_size=2, accumulation=accumulation, mixes_shapes=mixes)
            for mixes in (True, False)
        )
        assert epochs(one) == epochs(other)


@RANDOM
def test_a_plan_asked_anywhere_equals_one_asked_from_the_start(case):
    whole = [step for steps in epochs(plan(case)) for step in steps]
    picked = random.Random(case).sample(range(len(whole)), min(len(whole), 5))
    for step in picked:
        assert plan(case).at(step) == whole[step]
        assert plan(case).epoch_of(step) == whole[step].epoch
        assert plan(case).images_before_step(step) == sum(len(one.images) for one in whole[:step])
    restless = plan(case)
    assert [restless.at(step) for step in picked] == [whole[step] for step in picked]


@each("cut", [(12, 1), (1, 12), (3, 4), (4, 3)])
def test_the_order_is_the_same_however_a_step_is_cut(cut):
    batch_size, accumulation = cut
    one = plan(3, batch_size=batch_size, accumulation=accumulation)
    whole = plan(3, batch_size=6, accumulation=2)
    assert [one.at(step).images for step in range(20)] == [
        whole.at(step).images for step in range(20)
    ]
    most = max(len(some) for step in range(20) for some in one.at(step).microbatches)
    assert most == batch_size


def alike(count, per_epoch, *, batch_size, accumulation=1, seed=0, **options):
    """A plan of so many images of one size."""
    concept_slice = ConceptSlice(
        0, count, Fraction(per_epoch), 1, lambda *_: 0, lambda *_: SIZES[0], period=1
    )
    sizes = {"batch_size": batch_size, "accumulation": accumulation}
    return BatchPlan([concept_slice], **sizes, seed=seed, **options)


@each("batch_size", [1, 12])
def test_every_epoch_and_seed_has_an_order_of_its_own(batch_size):
    orders = set()
    for seed in range(3):
        for steps in epochs(alike(12, 12, batch_size=batch_size, seed=seed), 3):
            orders.add(tuple(one.item for step in steps for one in step.images))
    assert len(orders) == 9
    assert {tuple(sorted(one)) for one in orders} == {tuple(range(12))}


def test_a_long_run_takes_no_more_memory_than_a_short_one():
    def kept(steps):
        plan = alike(100, 100, batch_size=1)
        tracemalloc.start()
        for step in range(steps):
            plan.at(step)
        gc.collect()  # what is kept, not when garbage was last collected
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size

    kept(500)  # what is only made once
    # As much as half of a short run's two planned epochs of some 40 kB. A step that was kept would
    # take 200 bytes. Not as a ratio: objects that Python reuses are not counted.
    assert kept(5000) - kept(500) < 20_000


def test_epochs_that_show_nothing_have_no_steps():
    made = alike(1, "0.25", batch_size=1)
    assert [made.steps_in(epoch) for epoch in range(8)] == [0, 0, 0, 1, 0, 0, 0, 1]
    assert [made.at(step).epoch for step in range(3)] == [3, 7, 11]
    assert made.steps_per_epoch == 1


def test_a_plan_without_images_is_a_mistake():
    empty = ConceptSlice(0, 0, Fraction(5), 1, lambda *_: 0, lambda *_: SIZES[0])
    with pytest.raises(ValueError, match="no images"):
        BatchPlan([empty], batch_size=1, accumulation=1, seed=1)


@pytest.fixture
def hasty():
    """Threads that interrupt each other all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_that_ask_at_once_are_reported_the_same(hasty):
    def plan():
        return alike(100, 13, batch_size=5)

    made, steps = plan(), plan().first_step(40)

    def ask(number):
        order = random.Random(number).sample(range(steps), steps)
        return {step: made.at(step) for step in order}

    with ThreadPoolExecutor(8) as threads:
        reported = list(threads.map(ask, range(8)))
    whole = {step: plan().at(step) for step in range(steps)}
    assert all(own == whole for own in reported)


# --- of folders, by a config alone

FOLDER_EPOCHS = 4
REPEATS = [1, 2, 3, 0.5, 1.5, 0.4]
OF_FOLDERS = random_cases(12)


def settings(dice, root):
    """A config of random folders: repeats, samples, class images, resolutions, changes."""
    concepts = []
    for number in range(dice.randint(0, 3)):
        own = {"folder": str(folder(root / f"more{number}", shapes(dice, 6)))}
        own |= dice.choice([{"repeats": dice.choice(REPEATS)}, {"images": dice.randint(1, 20)}])
        own["role"] = dice.choice(["train", "train", "prior", "own_prediction"])
        concepts.append(own)
    data = {
        "folder": str(folder(root / "first", shapes(dice, 12))),
        "resolution": 64,
        "concepts": concepts,
        "buckets": {"resolutions": dice.choice([[], [{"resolution": 96}]])},
        "augmentation": {"flip": dice.choice(["off", "random"])},
        "cache_latents": dice.random() < 0.7,
    }
    if dice.random() < 0.4:
        data["class_folder"] = str(folder(root / "class", shapes(dice, 9)))
    return resolve({"data": data, "training": {"seed": dice.randrange(99)}}, source="")


def made(case, root):
    """The dataset of a case, its config, and what makes its plan."""
    dice = random.Random(case)
    config = settings(dice, root)
    dataset = read_dataset(config)
    sizes = {"batch_size": dice.randint(1, 5), "accumulation": dice.randint(1, 2)}

    def plan():
        slices = concept_slices(dataset, is_cached=config.data.cache_latents)
        return BatchPlan(slices, seed=config.training.seed, **sizes)

    return dataset, config, plan


def asked(dataset):
    """How many repeats of each concept an epoch is to have, from the settings."""
    each = {}
    for number, concept in enumerate(dataset.concepts):
        count = sum(item.concept == number for item in dataset.items)
        each[number] = Fraction(concept.images or concept.repeats * count)
    trained = [n for n, concept in enumerate(dataset.concepts) if concept.role == "train"]
    for number, concept in enumerate(dataset.concepts):
        if concept.matches_training:
            each[number] = sum(each[one] for one in trained)
    return each


@OF_FOLDERS
def test_every_image_is_shown_as_often_as_its_folder_asks(case, tmp_path):
    dataset, _, plan = made(case, tmp_path)
    one, so_far = plan(), Counter()
    for epoch in range(FOLDER_EPOCHS):
        steps = range(one.first_step(epoch), one.first_step(epoch + 1))
        so_far.update(shown.item for step in steps for shown in one.at(step).images)
        for number, per_epoch in asked(dataset).items():
            places = [n for n, item in enumerate(dataset.items) if item.concept == number]
            total = int((epoch + 1) * per_epoch)
            assert sum(so_far[place] for place in places) == total
            least = total // len(places)
            assert {so_far[place] for place in places} <= {least, least + 1}


@OF_FOLDERS
def test_a_run_of_folders_goes_on_anywhere(case, tmp_path):
    _, _, plan = made(case, tmp_path)
    one = plan()
    whole = [one.at(step) for step in range(one.first_step(FOLDER_EPOCHS))]
    for step in random.Random(case).choices(range(len(whole)), k=6):
        assert plan().at(step) == whole[step]


def test_images_that_could_not_be_encoded_leave_the_others_in_place(tmp_path):
    dataset, _, _ = made(0, tmp_path)
    kept = [place for place in range(len(dataset.items)) if place != 1]
    slices = concept_slices(dataset, is_cached=True, kept=kept)
    one = BatchPlan(slices, batch_size=2, accumulation=1, seed=0)
    for step in range(one.first_step(2)):
        for microbatch in one.at(step).microbatches:
            items = [dataset.items[kept[shown.item]] for shown in microbatch]
            transforms = [
                image_transform(item, dataset.concept_of(item), shown.transform)
                for item, shown in zip(items, microbatch, strict=True)
            ]
            assert len({own.bucket for own in transforms}) == 1
    assert sum(concept_slice.count for concept_slice in slices) == len(kept)


def test_folders_of_one_seed_have_orders_of_their_own(tmp_path):
    concepts = [
        {"folder": str(folder(tmp_path / name, [(64, 64)] * 12)), "images": 3}
        for name in ("one", "two")
    ]
    config = resolve({"data": {"resolution": 64, "concepts": concepts}}, source="")
    slices = concept_slices(read_dataset(config), is_cached=True)
    plan = BatchPlan(slices, batch_size=6, accumulation=1, seed=0)
    shown = sorted(one.item for one in plan.at(0).images)
    assert [item - 12 for item in shown[3:]] != shown[:3]
