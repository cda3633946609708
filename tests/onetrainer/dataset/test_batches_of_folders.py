"""Which images of random folders each step shows, by a config alone."""

import random
from collections import Counter
from fractions import Fraction

from onetrainer.dataset.batch_plan import BatchPlan, concept_slices
from onetrainer.dataset.dataset import read_dataset
from onetrainer.dataset.transforms import image_transform
from onetrainer.presets.presets import resolve
from tests.each import random_cases
from tests.images import folder, shapes
from tests.onetrainer.dataset.ranks import of_rank

EPOCHS = 4
REPEATS = [1, 2, 3, 0.5, 1.5, 0.4]
RANDOM = random_cases(12)


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
    sizes["world"] = dice.randint(1, 4)

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


@RANDOM
def test_every_image_is_shown_as_often_as_its_folder_asks(case, tmp_path):
    dataset, _, plan = made(case, tmp_path)
    one, so_far = plan(), Counter()
    for epoch in range(EPOCHS):
        steps = range(one.first_step(epoch), one.first_step(epoch + 1))
        so_far.update(shown.item for step in steps for shown in one.at(step).images)
        for number, per_epoch in asked(dataset).items():
            places = [n for n, item in enumerate(dataset.items) if item.concept == number]
            total = int((epoch + 1) * per_epoch)
            assert sum(so_far[place] for place in places) == total
            least = total // len(places)
            assert {so_far[place] for place in places} <= {least, least + 1}


@RANDOM
def test_a_run_of_folders_goes_on_anywhere_on_any_number_of_ranks(case, tmp_path):
    _, _, plan = made(case, tmp_path)
    one = plan()
    whole = [one.at(step) for step in range(one.first_step(EPOCHS))]
    for step in random.Random(case).choices(range(len(whole)), k=6):
        assert plan().at(step) == whole[step]
        of_ranks = [shown for rank in range(4) for _, some in of_rank(whole[step], rank, 4)
                    for shown in some]  # fmt: skip
        assert Counter(of_ranks) == Counter(whole[step].images)


def test_images_that_could_not_be_encoded_leave_the_others_in_place(tmp_path):
    dataset, _, _ = made(0, tmp_path)
    kept = [place for place in range(len(dataset.items)) if place != 1]
    slices = concept_slices(dataset, is_cached=True, kept=kept)
    one = BatchPlan(slices, batch_size=2, accumulation=1, seed=0)
    for step in range(one.first_step(2)):
        for shown in one.at(step).images:
            item = dataset.items[kept[shown.item]]
            own = image_transform(item, dataset.concept_of(item), shown.transform)
            assert own.bucket == one.at(step).bucket
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
