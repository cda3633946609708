"""Every picture once an epoch, in an order that nothing but the seed decides."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from modules.data.batches import BatchPlan, frame_of, load_batch
from onetrainer.buckets import Bucket
from onetrainer.dataset_index import Item
from tests import tiny

SHAPES = [Bucket(64, 64), Bucket(72, 56), Bucket(56, 72), Bucket(128, 32)]


def some_buckets(seed, count=None):
    chance = random.Random(seed)
    return [chance.choice(SHAPES) for _ in range(count or chance.randrange(1, 60))]


def plan_of(buckets, batch_size=3, accumulation=2, seed=0):
    return BatchPlan(buckets, batch_size=batch_size, accumulation=accumulation, seed=seed)


def epoch(plan, number=0):
    first = number * plan.steps_per_epoch
    return [plan.at(step) for step in range(first, first + plan.steps_per_epoch)]


@pytest.mark.parametrize("seed", range(40))
def test_every_epoch_holds_every_picture_once(seed):
    chance = random.Random(seed)
    buckets = some_buckets(seed)
    batch_size, accumulation = chance.randrange(1, 9), chance.randrange(1, 5)
    plan = plan_of(buckets, batch_size, accumulation, seed)
    for number in (0, 1, 5):
        steps = epoch(plan, number)
        assert {step.epoch for step in steps} == {number}
        assert Counter(picture for step in steps for picture in step.pictures) == Counter(
            range(len(buckets))
        )
        for step in steps:
            assert len({buckets[picture] for picture in step.pictures}) == 1
            assert all(1 <= len(micro) <= batch_size for micro in step.microbatches)
            assert len(step.microbatches) <= accumulation
            assert all(len(micro) == batch_size for micro in step.microbatches[:-1])


@pytest.mark.parametrize("seed", range(10))
def test_order_does_not_depend_on_microbatches(seed):
    buckets = some_buckets(seed)
    plans = [plan_of(buckets, *cut, seed) for cut in [(12, 1), (6, 2), (4, 3), (1, 12)]]
    for step in range(3 * plans[0].steps_per_epoch):
        seen = {(plan.at(step).pictures, plan.at(step).weight) for plan in plans}
        assert len(seen) == 1


def test_any_step_can_be_asked_for_first():
    buckets = some_buckets(3, 50)
    plan = plan_of(buckets)
    run = [plan.at(step) for step in range(40)]
    for step in random.Random(0).sample(range(40), 40):
        assert plan_of(buckets).at(step) == plan.at(step) == run[step]


def test_epochs_and_seeds_differ_in_order():
    buckets = some_buckets(1, 50)
    plan = plan_of(buckets)
    assert [step.pictures for step in epoch(plan, 0)] != [step.pictures for step in epoch(plan, 1)]
    assert plan.at(0) != plan_of(buckets, seed=1).at(0)


def test_pictures_meet_others_in_every_epoch():
    plan = plan_of([SHAPES[0]] * 30)
    together = [{frozenset(step.pictures) for step in epoch(plan, number)} for number in range(4)]
    assert not any(together[0] & others for others in together[1:])


def test_order_of_today_stays():
    """Changing it would change every resumed run: Python's version must not, nor may we."""
    plan = plan_of([SHAPES[0]] * 5 + [SHAPES[1]] * 3, batch_size=2, accumulation=1)
    assert [step.pictures for step in epoch(plan)] == [(4,), (7,), (5, 6), (3, 1), (2, 0)]


def test_order_is_fair():
    """Each picture is equally often in each place: chi-squared over 400 seeds, 9 degrees."""
    counts = [Counter() for _ in range(4)]
    for seed in range(400):
        for place, step in enumerate(epoch(plan_of([SHAPES[0]] * 4, 1, 1, seed))):
            counts[place][step.pictures[0]] += 1
    error = sum((count[picture] - 100) ** 2 / 100 for count in counts for picture in range(4))
    assert error < 27.9  # exceeded once in a thousand


def test_picture_of_a_new_bucket_leaves_the_other_buckets_pictures_together():
    buckets = [SHAPES[0]] * 20
    before = {step.pictures for step in epoch(plan_of(buckets))}
    after = {step.pictures for step in epoch(plan_of([*buckets, SHAPES[1]]))}
    assert after - before == {(20,)}


def test_counting_steps_and_epochs():
    plan = plan_of([SHAPES[0]] * 13 + [SHAPES[1]] * 6 + [SHAPES[2]])
    assert plan.steps_per_epoch == 3 + 1 + 1
    assert [plan.epoch_of(step) for step in (0, 4, 5, 14)] == [0, 0, 1, 2]
    assert plan.at(7).epoch == 1


def test_weight_is_that_of_a_full_step():
    plan = plan_of([SHAPES[0]] * 7)
    assert {step.weight for step in epoch(plan)} == {1 / 6}


def load(dataset, plan, step, microbatch, dropout=0.0, seed=7):
    return load_batch(dataset, plan.at(step), microbatch, seed=seed, caption_dropout=dropout)


def planned(dataset, batch_size=2, accumulation=1):
    return plan_of([item.bucket for item in dataset.items], batch_size, accumulation)


def test_batch_holds_pictures_captions_and_positions(bench):
    dataset = bench.encode()
    plan = planned(dataset)
    for step in range(plan.steps_per_epoch):
        pictures = plan.at(step).pictures
        batch = load(dataset, plan, step, 0)
        assert batch.captions == tuple(dataset.items[picture].caption for picture in pictures)
        assert batch.positions == tuple(range(len(pictures)))
        assert batch.weight == 0.5
        frames = [frame_of(dataset.items[picture]) for picture in pictures]
        assert torch.equal(batch.frames, torch.tensor(frames))
        for place, picture in enumerate(pictures):
            moments = dataset.moments(picture)
            assert torch.equal(batch.moments.mean[place : place + 1], moments.mean)
            assert torch.equal(batch.moments.std[place : place + 1], moments.std)
            hidden = dataset.conditioning(batch.captions[place]).hidden
            assert torch.equal(batch.conditioning.hidden[place : place + 1], hidden)


def joined(batches):
    """What a step sees, however it is cut."""
    return (
        torch.cat([batch.moments.mean for batch in batches]),
        torch.cat([batch.conditioning.hidden for batch in batches]),
        [caption for batch in batches for caption in batch.captions],
        [position for batch in batches for position in batch.positions],
        {batch.weight for batch in batches},
    )


def test_microbatches_see_the_same_as_the_whole_batch(bench):
    bench.caption("p0", "word " * 100)  # a caption of two chunks
    bench.caption("p2", "word " * 200)  # and one of three
    dataset = bench.encode()
    assert {dataset.tokens(item.caption) for item in dataset.items} == {77, 154, 231}
    whole, halves = planned(dataset, 4, 1), planned(dataset, 2, 2)
    for step in range(2 * whole.steps_per_epoch):
        count = len(halves.at(step).microbatches)
        one = joined([load(dataset, whole, step, 0, dropout=0.3)])
        other = joined([load(dataset, halves, step, index, dropout=0.3) for index in range(count)])
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])
        assert one[2:] == other[2:]


def test_short_captions_are_followed_by_the_empty_prompt(bench):
    bench.caption("p0", "word " * 100)
    dataset = bench.encode()
    plan = planned(dataset, 8)
    step = next(step for step in range(9) if 0 in plan.at(step).pictures)
    batch = load(dataset, plan, step, 0)
    assert batch.conditioning.hidden.shape[1] == 154
    empty = dataset.conditioning("").hidden[0]
    for place, picture in enumerate(plan.at(step).pictures):
        hidden = batch.conditioning.hidden[place]
        if picture == 0:
            assert torch.equal(hidden, dataset.conditioning(dataset.items[0].caption).hidden[0])
        else:
            assert torch.equal(hidden[77:], empty)


@pytest.mark.parametrize(("dropout", "low", "high"), [(0.0, 0, 0), (1.0, 1, 1), (0.3, 0.23, 0.37)])
def test_caption_dropout_is_as_frequent_as_asked(bench, dropout, low, high):
    dataset = bench.encode(with_text=False)
    plan = planned(dataset)
    shown = [load(dataset, plan, step, 0, dropout).captions for step in range(300)]
    captions = [caption for step in shown for caption in step]
    assert low <= captions.count("") / len(captions) <= high


def test_caption_dropout_depends_on_seed_and_step_alone(bench):
    dataset = bench.encode()
    plan = planned(dataset)
    runs = [
        [load(dataset, plan, step, 0, 0.5, seed).captions for step in range(30)]
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]


def test_dropped_caption_is_conditioned_on_the_empty_one(bench):
    dataset = bench.encode()
    batch = load(dataset, planned(dataset), 0, 0, dropout=1.0)
    assert set(batch.captions) == {""}
    empty = dataset.conditioning("").hidden
    assert torch.equal(batch.conditioning.hidden, empty.expand_as(batch.conditioning.hidden))


def test_without_encoded_text_the_captions_are_left_to_the_objective(bench):
    dataset = bench.encode(with_text=False)
    batch = load(dataset, planned(dataset), 0, 0)
    assert batch.conditioning is None
    assert all(batch.captions)


@pytest.mark.parametrize(
    ("size", "bucket", "expected"),
    [
        ((2000, 1000), Bucket(1024, 1024), (1000, 2000, 0, 512, 1024, 1024)),
        ((1000, 2000), Bucket(1024, 1024), (2000, 1000, 512, 0, 1024, 1024)),
        ((1024, 1024), Bucket(1024, 1024), (1024, 1024, 0, 0, 1024, 1024)),
        ((640, 512), Bucket(1152, 896), (512, 640, 13, 0, 896, 1152)),
        ((3000, 2000), Bucket(1216, 832), (2000, 3000, 0, 16, 832, 1216)),
    ],
)
def test_frame_tells_what_was_done_to_the_picture_heights_first(size, bucket, expected):
    # By hand: 640 × 512 covers 1152 × 896 as 1152 × 922, so 13 rows go above (26 in all);
    # 3000 × 2000 covers 1216 × 832 as 1248 × 832, so 16 columns go on the left.
    assert frame_of(Item(Path("p.png"), "", *size, bucket)) == expected


def test_sdxl_captions_are_dropped_with_their_pooled_vector(bench):
    bench.family.inner = tiny.family("sdxl")
    dataset = bench.encode()
    empty = bench.family.inner.encode_text([""])
    plan = planned(dataset)
    kept, dropped = (load(dataset, plan, 0, 0, dropout) for dropout in (0.0, 1.0))
    for place, caption in enumerate(kept.captions):
        alone = bench.family.inner.encode_text([caption])
        assert torch.equal(kept.conditioning.pooled[place], alone.pooled[0])
        assert torch.equal(kept.conditioning.hidden[place], alone.hidden[0])
        assert torch.equal(dropped.conditioning.pooled[place], empty.pooled[0])
        assert torch.equal(dropped.conditioning.hidden[place], empty.hidden[0])


TURNED = {  # EXIF's orientation: what the camera did to the upright picture (CIPA DC-008, 0x0112)
    1: None,
    3: Image.Transpose.ROTATE_180,
    6: Image.Transpose.ROTATE_90,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("turn", TURNED)
@pytest.mark.parametrize(
    ("size", "scaled", "cut", "frame"),
    [
        # Of 64² pixels, 48 × 88 is the bucket nearest to 1:2. 50 × 100 covers it as 48 × 96,
        # of which 8 rows are too many: 4 go above.
        ((50, 100), (48, 96), (0, 4, 48, 92), (100, 50, 4, 0, 88, 48)),
        ((100, 50), (96, 48), (4, 0, 92, 48), (50, 100, 0, 4, 48, 88)),
    ],
)
def test_a_turned_picture_is_framed_and_encoded_as_it_stands_upright(
    bench, turn, size, scaled, cut, frame
):
    """From the file through index, cache and batch to what SDXL is told."""
    bench.family.inner = family = tiny.family("sdxl")
    for path in bench.folder.iterdir():
        path.unlink()
    upright = np.random.default_rng(turn).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    bench.add_turned("a", upright, turn, TURNED[turn])
    dataset = bench.encode()
    batch = load(dataset, planned(dataset), 0, 0)
    assert batch.frames.tolist() == [list(frame)]
    shown = Image.fromarray(upright).resize(scaled, Image.Resampling.LANCZOS).crop(cut)
    pixels = torch.from_numpy(np.array(shown)).permute(2, 0, 1)[None] / 127.5 - 1
    expected = family.encode_images(pixels.contiguous()).mean
    torch.testing.assert_close(batch.moments.mean, expected, atol=1e-5, rtol=0)
    assert told_to_unet(family, batch)["time_ids"].tolist() == [list(frame)]


def told_to_unet(family, batch):
    told = []

    def listen(_unet, _inputs, given):
        told.append(given["added_cond_kwargs"])

    hook = family.unet.register_forward_pre_hook(listen, with_kwargs=True)
    with torch.no_grad():
        family.predict(
            batch.moments.mean, torch.tensor([500]), batch.conditioning, frames=batch.frames
        )
    hook.remove()
    return told[0]
