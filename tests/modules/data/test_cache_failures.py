"""Images that cannot be encoded or cached are left out or reported, and the rest goes on."""

import errno
import os
import signal
import time
import warnings
from dataclasses import replace

import pytest
import torch

from modules.data import shards
from modules.data.shards import Store
from modules.interfaces import Conditioning
from onetrainer.cache.format import read_shard
from onetrainer.dataset.transforms import image_transform
from onetrainer.errors import UserError
from onetrainer.files.atomic import temporary_path
from tests.modules.data.test_cache import IMAGES, TEXTS, entry_files, same
from tests.transforms import load_pixels

ENTRIES = 3
DEADLINE_S = 120.0


def test_image_with_cut_off_pixels_is_skipped_and_the_run_goes_on(bench):
    path = bench.folder / "p3.png"
    path.write_bytes(path.read_bytes()[:-200])
    images = bench.encode(threads=2).images
    assert [item.path.name for item in images.items] == ["p0.png", "p1.png", "p2.png", "p4.png"]
    assert images.usable == (0, 1, 2, 4)
    (skipped,) = images.skipped
    assert skipped.path == path
    assert skipped.reason


def test_images_behind_a_skipped_one_keep_their_own_latents(bench):
    whole = bench.encode().images
    path = bench.folder / "p1.png"
    path.write_bytes(path.read_bytes()[:-200])
    images = bench.encode().images
    lines = [*whole.digest_lines()]
    assert [*images.digest_lines()] == [lines[place] for place in (0, 2, 3, 4)]
    for place, before in enumerate((0, 2, 3, 4)):
        assert torch.equal(images.moments(place, 0).mean, whole.moments(before, 0).mean)


def test_image_that_is_gone_is_skipped(bench):
    items = bench.index().items
    items[2].path.unlink()
    (skipped,) = bench.encode(items=items).images.skipped
    assert skipped.reason == "cannot be read (No such file or directory)"


def test_no_readable_image_is_a_user_error(bench):
    for path in bench.folder.glob("*.png"):
        path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(UserError, match=r"None of the 5 images can be read \(p0.png: damaged"):
        bench.encode()


@pytest.mark.parametrize("threads", [0, 3])
def test_one_encoding_that_is_not_a_number_leaves_the_others(bench, threads):
    (bench.folder / "p5.png").write_bytes((bench.folder / "p4.png").read_bytes())
    inner, item = bench.family.inner, bench.index().items[4]
    bad = load_pixels(item, image_transform(item, bench.concept, 0))

    def encode(pixels):
        moments = inner.encode_images(pixels)
        return replace(moments, std=moments.std / 0 * 0) if torch.equal(pixels[0], bad) else moments

    bench.family.encode_images = encode
    images = bench.encode(threads=threads, with_text=False).images
    assert [one.path.name for one in images.skipped] == ["p4.png", "p5.png"]
    assert all("not a number" in one.reason for one in images.skipped)
    assert images.usable == (0, 1, 2, 3)


def test_a_vae_whose_weights_are_not_numbers_is_blamed_rather_than_the_images(bench, family):
    with torch.no_grad():
        family.vae.encoder.conv_in.weight.view(-1)[3] = float("nan")
    bench.family.inner = family
    with pytest.raises(UserError, match=r"holds NaN in encoder\.conv_in\.weight") as caught:
        bench.encode(with_text=False)
    assert caught.value.failure == "model file"


@pytest.fixture
def emptied(bench, monkeypatch):
    """Another program empties the cache when all images are encoded, before they are read."""
    merge = Store.seal

    def seal(self, kind):
        merge(self, kind)
        if kind == "latents":
            for file in entry_files(bench, kind):
                file.unlink()

    monkeypatch.setattr(Store, "seal", seal)
    return bench


def test_entries_that_another_program_removes_meanwhile_are_made_again(emptied, monkeypatch):
    batch_source = emptied.encode(with_text=False)
    assert len(batch_source.images.items) == IMAGES and not batch_source.images.skipped
    assert emptied.family.encoded() == (2 * IMAGES, 0)
    monkeypatch.undo()
    fresh = emptied.encode(folder=emptied.folder.parent / "fresh", with_text=False)
    for place in range(IMAGES):
        found, expected = (one.images.moments(place, 0).mean for one in (batch_source, fresh))
        assert torch.equal(found, expected)


def test_entry_that_another_program_removes_again_and_again_is_left_out(emptied, monkeypatch):
    put, kept = Store.put, []

    def put_and_lose(self, kind, key, tensors):
        before = set(entry_files(emptied, kind))
        put(self, kind, key, tensors)
        kept.append(key)
        if len(kept) == IMAGES + 2:  # the second one that is made again
            (its,) = set(entry_files(emptied, kind)) - before
            its.unlink()

    monkeypatch.setattr(Store, "put", put_and_lose)
    images = emptied.encode(with_text=False).images
    assert len(kept) == 2 * IMAGES
    (skipped,) = images.skipped
    assert skipped.reason == "its cache entry disappeared after it was encoded"
    left = [item.path for item in images.items]
    assert sorted([*left, skipped.path]) == sorted(item.path for item in emptied.index().items)
    for place in range(IMAGES - 1):
        assert images.moments(place, 0).mean.isfinite().all()


def test_entries_that_merging_finds_damaged_are_made_again(bench, batch=2):
    bench.encode(batch=batch)
    later, whole = Store.seal, ["latents", "text"]

    def seal(self, kind):
        if kind in whole:
            damage(bench, kind)
            whole.remove(kind)
        later(self, kind)

    bench.add("new", caption="another", seed=99)
    reported = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "seal", seal)
        batch_source = bench.encode(
            batch=batch, progress=lambda done, total: reported.append((done, total))
        )
    images = batch_source.images
    assert len(images.items) == IMAGES + 1 and not images.skipped
    assert images.store.damaged
    fresh = bench.encode(folder=bench.folder.parent / "fresh", batch=batch)
    for place, item in enumerate(images.items):
        assert torch.equal(images.moments(place, 0).mean, fresh.images.moments(place, 0).mean)
        found = batch_source.texts.conditioning(item.captions[0]).hidden
        assert torch.equal(found, fresh.texts.conditioning(item.captions[0]).hidden)
    assert all(done <= total for done, total in reported)


def damage(bench, kind):
    """Changes a byte of each shard's last entry, unseen by the index."""
    for path in entry_files(bench, kind):
        if read_shard(path).count > 1:
            before = path.stat()
            data = bytearray(path.read_bytes())
            data[-1] ^= 255
            path.write_bytes(data)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("threads", [0, 2])
def test_full_disk_names_folder_and_remedy(bench, monkeypatch, threads):
    def full(path, pieces):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shards, "write_file", full)
    with pytest.raises(UserError, match="disk is full") as error:
        bench.encode(threads=threads)
    assert str(bench.cache) in error.value.what
    assert "Free space" in error.value.remedy


@pytest.mark.parametrize("part", ["hidden", "pooled"])
def test_caption_whose_encoding_is_not_a_number_is_reported_and_not_kept(bench, part):
    inner = bench.family.inner

    def encode(captions, *, among=()):
        found = inner.encode_text(captions)
        pooled = found.hidden[:, 0]
        if captions == ["thing 2"]:
            broken = (found.hidden if part == "hidden" else pooled) / 0
            return Conditioning(**{"hidden": found.hidden, "pooled": pooled, part: broken})
        return Conditioning(found.hidden, pooled)

    bench.family.encode_text = encode
    for _ in range(2):
        with pytest.raises(UserError, match='caption "thing 2" is not a number') as error:
            bench.encode()
        assert "fp16" in error.value.remedy


def test_a_text_encoder_with_weights_that_are_no_numbers_is_named_with_the_weight(
    bench, monkeypatch
):
    (_, encoder), *_ = bench.family.text_encoders.items()
    (weight, values), *_ = encoder.named_parameters()
    monkeypatch.setattr(values, "data", values.data * float("nan"))  # other tests use this encoder
    with pytest.raises(UserError, match=f"the text encoder holds NaN in {weight}, found at"):
        bench.encode()


def encode_until_killed(bench):
    """Encodes, and gets SIGKILL while it writes an entry after so many."""
    write, written = shards.write_file, 0

    def write_and_die(path, pieces):
        nonlocal written
        if written == ENTRIES:
            data = b"".join(pieces)
            temporary_path(path).write_bytes(data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, pieces)
        written += 1

    shards.write_file = write_and_die
    bench.encode(threads=2)


def exit_status(pid):
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_sigkill_costs_what_was_being_written_and_nothing_else(bench):
    with warnings.catch_warnings():
        # Python 3.12 warns of threads: of those here none holds a lock that the child needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        try:
            encode_until_killed(bench)
        finally:
            os._exit(1)
    status = exit_status(pid)
    assert status is not None
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
    again = bench.encode()
    images, texts = bench.family.encoded()
    assert images + texts == IMAGES + TEXTS - ENTRIES
    assert same(again, bench.encode(folder=bench.folder.parent / "other"))
    assert again.images.store.damaged == []
    assert entry_files(bench, "latents") != []
    assert not list(bench.folder.rglob(".onetrainer-*"))
