"""The cache encodes what has changed, once, and notices what is damaged."""

import errno
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from modules.data import digests
from modules.data.cache import CachingStopped, EncoderDigests
from modules.data.digests import PictureDigests, weights_digest
from modules.data.images import load_pixels
from onetrainer.buckets import Bucket
from onetrainer.errors import UserError
from tests import tiny

PICTURES, TEXTS = 5, 5  # four distinct captions and the empty one


def same(one, other):
    moments = zip(
        [one.moments(index) for index in range(len(one.items))],
        [other.moments(index) for index in range(len(other.items))],
        strict=True,
    )
    captions = {item.caption for item in one.items} | {""}
    return all(
        torch.equal(a.mean, b.mean) and torch.equal(a.std, b.std) for a, b in moments
    ) and all(
        torch.equal(one.conditioning(text).hidden, other.conditioning(text).hidden)
        for text in captions
    )


@pytest.fixture
def later(monkeypatch):
    """Lets every file seem to have been changed a minute ago."""
    now = digests.time.time_ns
    monkeypatch.setattr(digests.time, "time_ns", lambda: now() + 60_000_000_000)


def test_cached_is_what_the_family_encodes(bench):
    dataset = bench.encode()
    assert bench.family.encoded() == (PICTURES, TEXTS)
    for index, item in enumerate(dataset.items):
        expected = bench.family.inner.encode_images(load_pixels(item)[None])
        assert torch.equal(dataset.moments(index).mean, expected.mean)
        assert torch.equal(dataset.moments(index).std, expected.std)
        hidden = bench.family.inner.encode_text([item.caption]).hidden
        assert torch.equal(dataset.conditioning(item.caption).hidden, hidden)
        assert dataset.tokens(item.caption) == hidden.shape[1]
    assert dataset.conditioning("").hidden.shape == (1, 77, tiny.WIDTH)
    assert (dataset.skipped, dataset.warnings) == ((), ())


def test_second_run_encodes_nothing(bench):
    first = bench.encode()
    bench.family.encoded()
    assert same(first, bench.encode())
    assert bench.family.encoded() == (0, 0)


def test_changed_picture_alone_is_encoded_again(bench):
    before = bench.encode()
    bench.family.encoded()
    bench.add("p1", (96, 48), caption="thing 1", seed=99)
    after = bench.encode()
    assert bench.family.encoded() == (1, 0)
    assert not torch.equal(before.moments(1).mean, after.moments(1).mean)


def test_changed_caption_alone_is_encoded_again(bench):
    bench.encode()
    bench.family.encoded()
    bench.caption("p2", "something else")
    bench.encode()
    assert bench.family.encoded() == (0, 1)


def test_renamed_and_copied_pictures_are_not_encoded_again(bench):
    bench.encode()
    bench.family.encoded()
    for suffix in ("png", "txt"):
        (bench.folder / f"p0.{suffix}").rename(bench.folder / f"renamed.{suffix}")
    (bench.folder / "copy.png").write_bytes((bench.folder / "p1.png").read_bytes())
    assert len(bench.encode().items) == PICTURES + 1
    assert bench.family.encoded() == (0, 0)


def test_changed_resolution_encodes_pictures_again_and_coming_back_none(bench):
    bench.encode()
    bench.family.encoded()
    bench.resolution = 72
    bench.encode()
    assert bench.family.encoded() == (PICTURES, 0)
    bench.resolution = 64
    bench.encode()
    assert bench.family.encoded() == (0, 0)


def test_another_cut_of_the_same_scaling_is_another_entry(bench):
    item = bench.index().items[0]
    for bucket in (Bucket(64, 64), Bucket(64, 56), Bucket(64, 64)):
        bench.encode(items=(replace(item, bucket=bucket),), with_text=False)
    assert bench.family.encoded() == (2, 0)


def test_changed_vae_encodes_pictures_and_changed_text_encoder_captions(bench, family):
    bench.family.inner = family
    bench.encode()
    bench.family.encoded()
    with torch.no_grad():
        next(bench.family.vae.parameters()).add_(0.01)
    bench.encode()
    assert bench.family.encoded() == (PICTURES, 0)
    with torch.no_grad():
        next(bench.family.text_encoders["te"].parameters()).add_(0.01)
    bench.encode()
    assert bench.family.encoded() == (0, TEXTS)


def test_given_digests_stand_for_the_weights(bench):
    bench.encode(digests=EncoderDigests("a", "b"))
    bench.encode(digests=EncoderDigests("a", "b"))
    assert bench.family.encoded() == (PICTURES, TEXTS)
    bench.encode(digests=EncoderDigests("a", "other clip skip"))
    assert bench.family.encoded() == (0, TEXTS)


def test_encoders_in_another_dtype_encode_again_even_under_the_same_digests(bench, family):
    bench.family.inner = family
    bench.encode(digests=EncoderDigests("a", "b"))
    bench.family.encoded()
    for part in (family.vae, family.text_encoders["te"]):
        torch.nn.Module.to(part, torch.bfloat16)
    bench.encode(digests=EncoderDigests("a", "b"))
    assert bench.family.encoded() == (PICTURES, TEXTS)


def test_without_text_no_caption_is_encoded(bench):
    dataset = bench.encode(with_text=False)
    assert bench.family.encoded() == (PICTURES, 0)
    assert not dataset.has_text


def test_progress_counts_up_to_the_total(bench):
    for _ in range(2):
        seen = []
        bench.encode(progress=lambda done, total, seen=seen: seen.append((done, total)))
        total = PICTURES + TEXTS
        assert seen == [(done, total) for done in range(1, total + 1)]


@pytest.mark.parametrize("seed", range(4))
def test_interrupted_caching_goes_on_and_encodes_nothing_twice(bench, seed):
    chance = random.Random(seed)
    dataset = None
    while dataset is None:
        try:
            dataset = bench.encode(should_stop=lambda: chance.random() < 0.15)
        except CachingStopped:
            continue
    assert bench.family.encoded() == (PICTURES, TEXTS)
    whole = bench.encode(folder=bench.folder.parent / "other")
    assert same(dataset, whole)


def entry_files(bench, kind):
    return sorted((bench.cache / kind).rglob("*.safetensors"))


def flip(data):
    return data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]


@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: data[:5], lambda data: data[:-1], flip, lambda data: b"x" * 99],
)
@pytest.mark.parametrize(("kind", "count"), [("latents", (1, 0)), ("text", (0, 1))])
def test_damaged_entry_is_noticed_told_and_made_anew(bench, later, damage, kind, count):
    first = bench.encode()
    bench.family.encoded()
    victim = entry_files(bench, kind)[2]
    victim.write_bytes(damage(victim.read_bytes()))
    second = bench.encode()
    assert bench.family.encoded() == count
    assert len(second.warnings) == 1
    assert "damaged" in second.warnings[0]
    assert same(first, second)
    assert bench.encode().warnings == ()


def test_entry_removed_while_training_is_told(bench):
    dataset = bench.encode()
    for file in entry_files(bench, "latents"):
        file.unlink()
    with pytest.raises(UserError, match="Start again"):
        dataset.moments(0)


def test_picture_with_cut_off_pixels_is_skipped_and_the_run_goes_on(bench):
    path = bench.folder / "p3.png"
    path.write_bytes(path.read_bytes()[:-200])
    dataset = bench.encode()
    assert [item.path.name for item in dataset.items] == ["p0.png", "p1.png", "p2.png", "p4.png"]
    (skipped,) = dataset.skipped
    assert skipped.path == path
    assert skipped.reason


def test_no_readable_picture_is_a_user_error(bench):
    for path in bench.folder.glob("*.png"):
        path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(UserError, match=r"None of the 5 pictures can be read \(p0.png: damaged"):
        bench.encode()


def test_encoding_that_is_not_a_number_is_skipped(bench, family):
    bench.family.inner = family
    with torch.no_grad():
        bench.family.vae.quant_conv.bias.fill_(float("nan"))
    with pytest.raises(UserError, match="not a number"):
        bench.encode()
    assert entry_files(bench, "latents") == []


def test_full_disk_names_folder_and_remedy(bench, monkeypatch):
    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UserError, match="disk is full") as error:
        bench.encode()
    assert str(bench.cache) in error.value.what
    assert "Free space" in error.value.remedy


def test_cache_folder_that_cannot_be_is_told(bench):
    bench.cache.write_text("a file is in the way")
    with pytest.raises(UserError, match="Cache folder"):
        bench.encode()


def test_nothing_is_left_half_written(bench):
    bench.encode()
    assert [path for path in bench.cache.rglob("*") if path.suffix == ".part"] == []


def test_pictures_are_never_written(bench):
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in bench.folder.iterdir()}
    bench.encode()
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in bench.folder.iterdir()}
    assert before == after


def test_unchanged_pictures_are_not_read_again(bench, later, monkeypatch):
    first = bench.encode()

    def refuse(self, item):
        raise AssertionError("a picture was read")

    monkeypatch.setattr(PictureDigests, "read", refuse)
    assert same(first, bench.encode())


def test_remembered_picture_that_changes_is_read_again(bench, later):
    bench.encode()
    bench.family.encoded()
    bench.add("p0", (64, 64), caption="thing 0", seed=77)
    bench.encode()
    assert bench.family.encoded() == (1, 0)


def test_just_written_picture_is_not_remembered(bench):
    bench.encode()
    digests_file = PictureDigests(bench.cache / "pictures.json")
    assert [digests_file.known(item.path) for item in bench.index().items] == [None] * PICTURES


def test_damaged_memory_of_pictures_is_forgotten(bench, later):
    bench.encode()
    bench.family.encoded()
    for text in ("", "[1]", '{"a": 1}', '{"a": [1, 2, 3]}'):
        (bench.cache / "pictures.json").write_text(text)
        bench.encode()
    assert bench.family.encoded() == (0, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_digest_tells_values_names_types_and_shapes_apart(dtype):
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
