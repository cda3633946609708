"""The cache encodes what has changed, once, and notices what is damaged."""

import os
import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from modules.data import shards
from modules.data.cache import CachingStopped, EncoderDigests, damage_notes, weights_digest
from onetrainer.cache.database import INDEX_NAME
from onetrainer.config.data.augmentation import Augmentation
from onetrainer.dataset.items import index_concept
from onetrainer.dataset.transforms import image_transform, transform_count
from onetrainer.errors import UserError
from onetrainer.images.image_index import ImageIndex
from tests import pretend, tiny
from tests.each import each
from tests.transforms import load_pixels

IMAGES, TEXTS = 5, 5  # four distinct captions and the empty one


def views_of(batch_source):
    """Every image's place and view."""
    concepts = batch_source.concepts
    items = enumerate(batch_source.images.items)
    return [
        (i, number) for i, one in items for number in range(transform_count(concepts[one.concept]))
    ]


def same(one, other):
    pairs = [(one.images.moments(*at), other.images.moments(*at)) for at in views_of(one)]
    captions = {item.caption for item in one.images.items} | {""}
    return (
        one.images.items == other.images.items
        and all(torch.equal(a.mean, b.mean) and torch.equal(a.std, b.std) for a, b in pairs)
        and all(
            torch.equal(one.texts.conditioning(text).hidden, other.texts.conditioning(text).hidden)
            for text in captions
        )
    )


def test_cached_is_what_the_family_encodes(bench):
    bench.set(augmentation=Augmentation(flip="random", rotate=10, brightness=0.2, variations=2))
    batch_source = bench.encode(threads=2)
    assert bench.family.encoded() == (2 * IMAGES, TEXTS)
    for place, number in views_of(batch_source):
        item = batch_source.images.items[place]
        pixels = load_pixels(item, image_transform(item, bench.concept, number))
        expected = bench.family.inner.encode_images(pixels[None])
        assert torch.equal(batch_source.images.moments(place, number).mean, expected.mean)
        assert torch.equal(batch_source.images.moments(place, number).std, expected.std)
    assert (batch_source.images.skipped, batch_source.images.warnings) == ((), ())


def test_cached_caption_is_what_the_family_encodes(bench):
    texts = bench.encode().texts
    for caption in ("", "thing 0", "thing 3"):
        hidden = bench.family.inner.encode_text([caption]).hidden
        assert torch.equal(texts.conditioning(caption).hidden, hidden)
    assert texts.conditioning("").hidden.shape == (1, 77, tiny.WIDTH)


def test_captions_that_are_remembered_stay_in_use(bench, monkeypatch):
    """Another computer would remove from the cache what nobody has said to use for a day."""
    monkeypatch.setattr(shards, "_LEASE_INTERVAL_S", 0)
    texts = bench.encode(caches_latents=False).texts
    texts.conditioning("thing 0")
    with closing(sqlite3.connect(texts.store.folder / INDEX_NAME)) as database:
        database.execute("DELETE FROM leases")
        database.commit()
        texts.conditioning("thing 0")
        assert database.execute("SELECT count(*) FROM leases").fetchone() == (1,)


def test_changed_image_alone_is_encoded_again(bench):
    before = bench.encode()
    bench.family.encoded()
    bench.add("p1", (96, 48), caption="thing 1", seed=99)
    after = bench.encode()
    assert bench.family.encoded() == (1, 0)
    assert not torch.equal(before.images.moments(1, 0).mean, after.images.moments(1, 0).mean)


def test_renamed_and_copied_images_are_not_encoded_again(bench):
    bench.encode()
    bench.family.encoded()
    for suffix in ("png", "txt"):
        (bench.folder / f"p0.{suffix}").rename(bench.folder / f"renamed.{suffix}")
    (bench.folder / "copy.png").write_bytes((bench.folder / "p1.png").read_bytes())
    assert len(bench.encode().images.items) == IMAGES + 1
    assert bench.family.encoded() == (0, 0)


def test_two_files_of_the_same_image_are_encoded_once(bench, threads=3):
    (bench.folder / "p1-again.png").write_bytes((bench.folder / "p1.png").read_bytes())
    images = bench.encode(threads=threads).images
    assert bench.family.encoded() == (IMAGES, TEXTS)
    assert torch.equal(images.moments(1, 0).mean, images.moments(2, 0).mean)


def test_changed_resolution_encodes_images_again_and_coming_back_none(bench):
    bench.encode()
    bench.family.encoded()
    bench.set(resolutions=(72,))
    bench.encode()
    assert bench.family.encoded() == (IMAGES, 0)
    bench.set(resolutions=(64,))
    bench.encode()
    assert bench.family.encoded() == (0, 0)
    bench.set(resolutions=(64, 80))
    bench.encode()
    assert bench.family.encoded() == (IMAGES, 0)


def test_more_variations_leave_those_that_there_are(bench):
    bench.set(augmentation=Augmentation(flip="random", rotate=5, variations=2))
    bench.encode()
    assert bench.family.encoded() == (2 * IMAGES, TEXTS)
    bench.set(augmentation=Augmentation(flip="random", rotate=5, variations=3))
    bench.encode()
    assert bench.family.encoded() == (IMAGES, 0)


def test_changed_vae_encodes_images_and_changed_text_encoder_captions(bench, family):
    bench.family.inner = family
    bench.encode()
    bench.family.encoded()
    with torch.no_grad():
        next(bench.family.vae.parameters()).add_(0.01)
    bench.encode()
    assert bench.family.encoded() == (IMAGES, 0)
    with torch.no_grad():
        next(bench.family.text_encoders["te"].parameters()).add_(0.01)
    bench.encode()
    assert bench.family.encoded() == (0, TEXTS)


def test_encoders_in_another_dtype_encode_again_even_under_the_same_digests(bench, family):
    bench.family.inner = family
    bench.encode(digests=EncoderDigests("a", "b"))
    bench.family.encoded()
    for part in (family.vae, family.text_encoders["te"]):
        torch.nn.Module.to(part, torch.bfloat16)
    bench.encode(digests=EncoderDigests("a", "b"))
    assert bench.family.encoded() == (IMAGES, TEXTS)


def test_a_gpu_that_rounds_products_otherwise_encodes_again(bench, family, monkeypatch):
    bench.family.inner = family
    with pretend.accelerator():
        for part in (family.vae, *family.text_encoders.values()):
            part.to("cuda")
        counts = []
        for is_on in (False, True, False):
            monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", is_on)
            bench.encode()
            counts.append(bench.family.encoded())
    assert counts == [(IMAGES, TEXTS), (IMAGES, TEXTS), (0, 0)]


@pytest.mark.parametrize("threads", [0, 2])
def test_progress_counts_up_to_the_total(bench, threads):
    for _ in range(2):
        seen = []
        bench.encode(
            threads=threads,
            with_text=False,
            progress=lambda done, total, seen=seen: seen.append((done, total)),
        )
        assert seen == [(done, IMAGES) for done in range(1, IMAGES + 1)]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 8))]
)
def test_interrupted_caching_goes_on_and_encodes_nothing_twice(bench, seed):
    settings = {"threads": 2, "batch": 2}
    bench.encode(folder=bench.folder.parent / "other", **settings)
    once = bench.family.encoded()
    chance = random.Random(seed)
    batch_source = None
    while batch_source is None:
        try:
            batch_source = bench.encode(should_stop=lambda: chance.random() < 0.15, **settings)
        except CachingStopped:
            continue
    assert (bench.family.images, len(bench.family.texts)) == once
    assert same(batch_source, bench.encode(folder=bench.folder.parent / "other", **settings))


def entry_files(bench, kind):
    return sorted((bench.cache / kind).glob("*.safetensors"))


@pytest.mark.parametrize(("kind", "count"), [("latents", (1, 0)), ("text", (0, 1))])
def test_damaged_entry_is_noticed_and_made_again(bench, kind, count):
    whole = bench.encode(folder=bench.folder.parent / "other")
    bench.encode()
    bench.family.encoded()
    victim = entry_files(bench, kind)[-1]
    data, now = bytearray(victim.read_bytes()), victim.stat().st_mtime_ns
    data[-5] ^= 1  # within the last entry
    victim.write_bytes(data)
    os.utime(victim, ns=(now, now + 10**9))  # clocks of files tick slowly
    second = bench.encode()
    assert bench.family.encoded() == count
    assert damage_notes(second.images.store)[0].startswith("a cache entry was damaged")
    assert same(whole, second)
    assert damage_notes(bench.encode().images.store) == []


def test_entry_damaged_while_training_is_reported(bench):
    batch_source = bench.encode()
    for file in entry_files(bench, "latents"):
        with file.open("r+b") as opened:  # in place: another file would not be the one mapped
            opened.seek(-5, 2)
            opened.write(b"\0\1\2\3")
    with pytest.raises(UserError, match="Start again"):
        for at in views_of(batch_source):
            batch_source.images.moments(*at)


def test_unchanged_images_are_not_read_again(bench, later, monkeypatch):
    first = bench.encode()

    def refuse(self, path):
        raise AssertionError("an image was read")

    monkeypatch.setattr(ImageIndex, "read", refuse)
    bench.family.encoded()
    assert same(first, bench.encode())
    assert bench.family.encoded() == (0, 0)


def test_large_images_are_encoded_first_and_those_of_a_size_together(bench):
    sizes = []
    inner = bench.family.inner

    def note(pixels):
        sizes.append(tuple(pixels.shape[2:]))
        return inner.encode_images(pixels)

    bench.family.encode_images = note
    bench.encode(threads=3)
    areas = [height * width for height, width in sizes]
    assert areas == sorted(areas, reverse=True)
    assert len({*pairwise(sizes)} - {(one, one) for one in sizes}) == 2


def test_validation_images_are_shown_in_one_way(bench):
    bench.set(augmentation=Augmentation(flip="random", rotate=20))
    plain = bench.encode(validation=True, with_text=False)
    assert bench.family.encoded() == (IMAGES, 0)
    bench.set(augmentation=Augmentation())
    assert torch.equal(plain.images.moments(0, 0).mean, bench.encode().images.moments(0, 0).mean)


def test_concepts_are_encoded_by_their_own_settings(bench):
    other = replace(bench.concept, resolutions=(80, 64))
    both = (*bench.index().items, *index_concept(other, number=1).items)
    images = bench.encode(items=both, concepts=(bench.concept, other)).images
    assert bench.family.encoded() == (2 * IMAGES, TEXTS)  # what they have in common once
    for place in range(IMAGES):
        own, first, second = (
            images.moments(*at).mean for at in [(place, 0), (place + 5, 0), (place + 5, 1)]
        )
        assert torch.equal(own, second)
        assert first.shape != second.shape


def test_digest_lines_keep_images_transforms_and_encoders_apart(bench, family):
    bench.family.inner = family
    lines = [tuple(bench.encode().images.digest_lines())]
    bench.add("p1", (96, 48), caption="thing 1", seed=99)
    lines.append(tuple(bench.encode().images.digest_lines()))
    assert [a == b for a, b in zip(*lines, strict=True)] == [True, False, True, True, True]
    bench.set(augmentation=Augmentation(flip="always"))
    lines.append(tuple(bench.encode().images.digest_lines()))
    lines.append(tuple(bench.encode(batch=4, threads=3).images.digest_lines()))
    lines.append(tuple(bench.encode(caches_latents=False).images.digest_lines()))
    assert lines[2] == lines[3] == lines[4]
    assert not set(lines[1]) & set(lines[2])


def test_mask_of_a_changed_transform_is_cut_again_and_that_of_changed_colors_is_not(bench):
    bench.add_companion("p0", "masklabel")
    plain = bench.encode(with_text=False).images.entries["mask"].keys[0]
    keys = []
    for change in ({"brightness": 0.5}, {"flip": "always"}, {"rotate": 5.0}):
        bench.set(augmentation=Augmentation(fixed=True, **change))
        keys.append(bench.encode(with_text=False).images.entries["mask"].keys[0])
    assert keys[0] == plain
    assert len({plain, *keys}) == 3


def test_nothing_is_encoded_before_it_is_asked_for_and_nothing_is_kept(bench):
    bench.add_companion("p0", "masklabel")
    images = bench.encode(caches_latents=False, with_text=False).images
    assert bench.family.encoded() == (0, 0)
    for _ in range(2):
        assert not images.moments(0, 0).mean.requires_grad
    assert bench.family.encoded() == (2, 0)
    assert not [*(bench.cache / "latents").iterdir(), *(bench.cache / "masks").iterdir()]


def test_every_repeat_may_be_another_variation(bench):
    bench.set(augmentation=Augmentation(rotate=20))
    images = bench.encode(caches_latents=False, with_text=False).images
    seen = {images.pixels(0, number).sum().item() for number in range(1000, 1010)}
    assert len(seen) == 10


@pytest.mark.parametrize("threads", [0, 2])
def test_an_image_that_cannot_be_decoded_is_left_out_in_every_run(bench, later, threads):
    broken = bench.folder / "broken.png"
    whole = next(bench.folder.glob("*.png")).read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    bench.caption("broken", "an image")
    for _ in range(2):  # the second run knows its digest
        images = bench.encode(caches_latents=False, threads=threads).images
        assert [one.path for one in images.skipped] == [broken]


@each("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_digest_keeps_values_names_types_and_shapes_apart(dtype):
    def module(value=1.0, name="a", dtype=dtype, shape=(2, 3)):
        made = torch.nn.Module()
        made.register_buffer(name, torch.full(shape, value, dtype=dtype))
        made.register_buffer("count", torch.tensor(3))
        return made

    others = [{"value": 2.0}, {"name": "b"}, {"dtype": torch.float64}, {"shape": (3, 2)}]
    different = {weights_digest(module(**change)) for change in [{}, *others]}
    assert len(different) == 5
    assert weights_digest(module()) == weights_digest(module())


def test_weights_digest_does_not_depend_on_memory_layout():
    plain, turned = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    turned.load_state_dict(plain.state_dict())
    turned.weight.data = turned.weight.data.t().contiguous().t()
    assert weights_digest(plain) == weights_digest(turned)
