"""A step's microbatch holds the images and captions that were planned."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from modules.data.batches import read_batch
from modules.objectives.denoising import Denoising
from onetrainer.config.data.augmentation import Augmentation
from onetrainer.config.data.buckets import Buckets, Size
from onetrainer.config.data.captions import Captions
from onetrainer.config.objectives.denoising import Denoising as Section
from onetrainer.dataset.batch_plan import BatchPlan, ImageRepeat, StepPlan, concept_slices
from onetrainer.dataset.dataset import Dataset
from onetrainer.dataset.items import index_concept
from onetrainer.dataset.transforms import image_transform, size_conditioning
from onetrainer.errors import UserError
from tests import exact, tiny
from tests.batches import distance, loss_of, some_weights
from tests.close import FLOAT64, ROUNDINGS, close, near
from tests.modules.data.conftest import noise
from tests.transforms import load_pixels


def planned(batch_source, batch_size=2, accumulation=1):
    dataset = Dataset(batch_source.concepts, batch_source.images.items)
    portions = concept_slices(dataset, is_cached=batch_source.images.is_cached)
    sizes = {"batch_size": batch_size, "accumulation": accumulation}
    return BatchPlan(portions, **sizes, seed=0, mixes_shapes=False)


def steps_of(plan, count):
    return [plan.at(step) for step in range(count)]


@pytest.mark.parametrize("keeps", [True, False])
def test_batch_holds_images_captions_and_positions(bench, keeps):
    bench.set(augmentation=Augmentation(flip="random", rotate=5))
    batch_source = bench.encode(caches_latents=keeps)
    items = batch_source.images.items
    for step in steps_of(planned(batch_source), 5):
        batch = read_batch(batch_source, step, 0, with_pixels=True)()
        assert batch.captions == tuple(items[one.item].captions[0] for one in step.images)
        assert batch.positions == tuple(range(len(step.images)))
        assert batch.weight == 0.5
        for place, one in enumerate(step.images):
            item = items[one.item]
            transform = image_transform(item, bench.concept, one.transform)
            pixels = load_pixels(item, transform)
            assert torch.equal(batch.pixels[place], pixels)
            moments = bench.family.inner.encode_images(pixels[None])
            assert torch.equal(batch.moments.mean[place : place + 1], moments.mean)
            assert torch.equal(batch.moments.std[place : place + 1], moments.std)
            hidden = batch_source.texts.conditioning(batch.captions[place]).hidden
            assert torch.equal(batch.conditioning.hidden[place : place + 1], hidden)
            assert batch.time_ids[place].tolist() == list(size_conditioning(item, transform))
        assert read_batch(batch_source, step, 0)().pixels is None
        bare = read_batch(replace(batch_source, texts=None), step, 0)()
        assert bare.conditioning is None and bare.captions == batch.captions


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
    bench.set(captions=Captions(dropout=0.3))
    batch_source = bench.encode()
    tokens = {
        batch_source.texts.conditioning(item.caption).hidden.shape[1]
        for item in batch_source.images.items
    }
    assert tokens == {77, 154, 231}
    whole, halves = planned(batch_source, 4, 1), planned(batch_source, 2, 2)
    for step in range(6):
        count = len(halves.at(step).microbatches)
        one = joined([read_batch(batch_source, whole.at(step), 0)()])
        other = joined(
            [read_batch(batch_source, halves.at(step), number)() for number in range(count)]
        )
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])
        assert one[2:] == other[2:]


def test_a_step_of_several_shapes_has_the_gradient_of_its_images_one_by_one(bench):
    bench.family.inner = family = exact.family()
    objective = Denoising(family, section=Section(), device=tiny.CPU)
    weights = some_weights(family)
    batch_source = bench.encode()
    slices = concept_slices(
        Dataset(batch_source.concepts, batch_source.images.items), is_cached=True
    )
    for step in steps_of(BatchPlan(slices, batch_size=2, accumulation=2, seed=0), 4):
        cut = [step.microbatches, [[image] for image in step.images]]
        found, expected = (
            torch.autograd.grad(
                sum(
                    loss_of(objective, read_batch(batch_source, plan, number)()).value
                    for number in range(len(plan.microbatches))
                ),
                weights,
            )
            for plan in (replace(step, microbatches=microbatches) for microbatches in cut)
        )
        assert len(step.microbatches) < len(step.images) or len(step.images) == 1
        assert distance(found, expected) < ROUNDINGS * FLOAT64


def test_short_captions_are_followed_by_the_empty_prompt(bench):
    bench.caption("p0", "word " * 100)
    batch_source = bench.encode()
    plan = planned(batch_source, 8)
    step = next(step for step in steps_of(plan, 9) if 0 in {one.item for one in step.images})
    batch = read_batch(batch_source, step, 0)()
    assert batch.conditioning.hidden.shape[1] == 154
    empty = batch_source.texts.conditioning("").hidden[0]
    for hidden, one in zip(batch.conditioning.hidden, step.images, strict=True):
        caption = batch_source.images.items[one.item].caption
        expected = batch_source.texts.conditioning(caption).hidden[0]
        assert torch.equal(hidden, expected if one.item == 0 else torch.cat([expected, empty]))


def test_captions_are_those_of_the_repeat(bench):
    batch_source = replace(
        bench.encode(with_text=False), caption_of=lambda item, repeat: f"{repeat}"
    )
    plan = planned(batch_source)
    for step in steps_of(plan, 12):
        assert read_batch(batch_source, step, 0)().captions == tuple(
            str(one.repeat) for one in step.images
        )


@pytest.mark.parametrize("keeps", [True, False])
def test_means_alone_leave_nothing_open(bench, keeps):
    batch_source = bench.encode(caches_latents=keeps)
    plan = planned(batch_source)
    sampled, mean = (read_batch(replace(batch_source, latents=kind), plan.at(0), 0)().moments
                   for kind in ("sample", "mean"))  # fmt: skip
    assert torch.equal(sampled.mean, mean.mean)
    assert sampled.std.min() > 0
    assert not mean.std.any()


@pytest.fixture
def mixed(bench, tmp_path):
    """The bench's images, two class images, and one to keep as the model makes it."""
    concepts = [bench.concept]
    items = list(bench.index().items)
    for role, count in (("prior", 2), ("own_prediction", 1)):
        folder = tmp_path / role
        folder.mkdir()
        for number in range(count):
            noise((64, 64), 50 + number).save(folder / f"{role}{number}.png")
        concept = replace(
            bench.concept,
            **{"name": role, "folder": folder, "role": role, "require_captions": False},
            loss_weight=0.5 * len(concepts),
        )
        items += index_concept(concept, number=len(concepts)).items
        concepts.append(concept)
    return bench, tuple(items), tuple(concepts)


def test_roles_and_weights_of_images_are_reported(mixed):
    bench, items, concepts = mixed
    batch_source = bench.encode(items=items, concepts=concepts)
    plan = replace(
        planned(batch_source).at(0),
        microbatches=(
            tuple(ImageRepeat(place, 0, 0) for place in (0, 5, 7, 6)),
            (ImageRepeat(0, 0, 0),),
        ),
    )
    batch = read_batch(batch_source, plan, 0)()
    assert batch.is_prior == (False, True, True, True)
    assert batch.own_prediction == (False, False, True, False)
    assert batch.loss_weights == (1.0, 0.5, 1.0, 0.5)
    alone = read_batch(batch_source, plan, 1)()
    assert (alone.is_prior, alone.own_prediction, alone.loss_weights) == ((), (), ())
    assert alone.positions == (4,)


@pytest.mark.parametrize(("lost", "words"), [("prior", "3 prior images"), ("p", "5 images")])
def test_a_role_of_which_nothing_can_be_read_is_reported(mixed, lost, words):
    bench, items, concepts = mixed
    for item in items:
        if item.is_prior == (lost == "prior"):
            item.path.write_bytes(item.path.read_bytes()[:2000])
    with pytest.raises(UserError, match=f"None of the {words} can be read"):
        bench.encode(items=items, concepts=concepts)


def test_batch_has_the_masks_of_its_images_and_ones_elsewhere(bench):
    Image.new("L", (64, 64), 51).save(bench.folder / "p0-masklabel.png")
    batch_source = bench.encode()
    assert [batch_source.images.mask(place, 0) is None for place in range(5)] == [
        False,
        *[True] * 4,
    ]
    shown = [ImageRepeat(place, 0, 0) for place in (2, 4, 0)]
    step = StepPlan(0, 0, ((shown[0],), tuple(shown[1:])), 1.0)
    assert read_batch(batch_source, step, 0)().mask is None
    mask = read_batch(batch_source, step, 1)().mask
    assert mask.shape == (2, 1, 8, 8)
    assert mask.mean(dim=(1, 2, 3)).tolist() == near([1.0, 0.2])


@pytest.fixture(scope="module")
def sdxl():
    """Shared by tests that change nothing in it."""
    return tiny.family("sdxl")


def test_sdxl_captions_are_dropped_with_their_pooled_vector(bench, sdxl):
    bench.family.inner = sdxl
    batch_source = bench.encode()
    empty = bench.family.inner.encode_text([""])
    step = planned(batch_source).at(0)
    kept = read_batch(batch_source, step, 0)()
    dropped = read_batch(replace(batch_source, caption_of=lambda item, repeat: ""), step, 0)()
    for place, caption in enumerate(kept.captions):
        alone = bench.family.inner.encode_text([caption])
        assert torch.equal(kept.conditioning.pooled[place], alone.pooled[0])
        assert torch.equal(kept.conditioning.hidden[place], alone.hidden[0])
        assert torch.equal(dropped.conditioning.pooled[place], empty.pooled[0])
        assert torch.equal(dropped.conditioning.hidden[place], empty.hidden[0])


TURNED = {  # EXIF's orientation: what the camera did to the upright image (CIPA DC-008, 0x0112)
    3: Image.Transpose.ROTATE_180,
    6: Image.Transpose.ROTATE_90,
}


@pytest.mark.parametrize(("turn", "is_upright"), [(3, True), (6, False)])
def test_a_rotated_image_is_conditioned_and_encoded_upright(bench, sdxl, turn, is_upright):
    """From the file through index, cache and batch to what SDXL is conditioned on."""
    bench.family.inner = family = sdxl
    for path in bench.folder.iterdir():
        path.unlink()
    # 100 × 200 covers 96 × 176 as 96 × 192, of which 16 rows are too many: 8 go above.
    size, scaled, cut, time_ids = (100, 200), (96, 192), (0, 8, 96, 184), (200, 100, 8, 0, 176, 96)
    if not is_upright:
        size, scaled, cut = size[::-1], scaled[::-1], (8, 0, 184, 96)
        time_ids = (100, 200, 0, 8, 96, 176)
    upright = np.random.default_rng(turn).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    bench.add_turned("a", upright, turn, TURNED[turn])
    bench.set(buckets=Buckets(sizes=(Size(width=96, height=176), Size(width=176, height=96))))
    batch_source = bench.encode()
    batch = read_batch(batch_source, planned(batch_source).at(0), 0)()
    assert batch.time_ids.tolist() == [list(time_ids)]
    shown = Image.fromarray(upright).resize(scaled, Image.Resampling.LANCZOS).crop(cut)
    pixels = torch.from_numpy(np.array(shown)).permute(2, 0, 1)[None] / 127.5 - 1
    expected = family.encode_images(pixels.contiguous()).mean
    close(batch.moments.mean, expected)
    assert unet_conditioning(family, batch)["time_ids"].tolist() == [list(time_ids)]


def unet_conditioning(family, batch):
    conditions = []

    def listen(_unet, _inputs, given):
        conditions.append(given["added_cond_kwargs"])

    hook = family.unet.register_forward_pre_hook(listen, with_kwargs=True)
    with torch.no_grad():
        family.predict(
            batch.moments.mean, torch.tensor([500]), batch.conditioning, time_ids=batch.time_ids
        )
    hook.remove()
    return conditions[0]
