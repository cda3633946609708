"""A mask lies over its picture wherever that is scaled, turned and cut."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import avg_pool2d

from modules.data import digests
from modules.data.batches import BatchPlan, load_batch
from modules.data.images import load_pixels
from modules.data.masks import decode_mask
from onetrainer.buckets import Bucket
from onetrainer.dataset_index import Item, index_folder
from onetrainer.picture_file import PictureError


def mask_of(path, size, bucket, image, suffix="png", **options):
    """The mask in a file, of a picture of a size in a bucket."""
    mask = path / f"mask.{suffix}"
    image.save(mask, **options)
    item = Item(path / "a.png", "", *size, Bucket(*bucket), mask)
    return decode_mask(item, io.BytesIO(mask.read_bytes()))


def gray(rows):
    return Image.fromarray(np.asarray(rows, np.uint8))


def smooth(width, height, seed=0):
    """A picture that changes slowly, so that scaling filters agree about it."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 6), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


@pytest.mark.parametrize("turn", [1, 3, 6, 8])
@pytest.mark.parametrize("size", [(64, 64), (200, 90), (90, 200), (333, 127), (40, 90), (70, 66)])
@pytest.mark.parametrize("mask_scale", [1, 0.5, 2])
def test_mask_that_is_the_picture_itself_equals_it_after_the_cut(tmp_path, size, turn, mask_scale):
    exif = Image.Exif()
    exif[0x0112] = turn
    picture = smooth(*size, seed=turn)
    picture.save(tmp_path / "a.png", exif=exif)
    scaled = [round(side * mask_scale) for side in size]
    mask = tmp_path / "a-masklabel.png"
    picture.resize(scaled, Image.Resampling.BICUBIC).save(mask, exif=exif)
    (item,) = index_folder(tmp_path, resolution=64, require_captions=False, masks="files").items
    made = decode_mask(item, io.BytesIO(mask.read_bytes()))
    shown = (load_pixels(item)[:1] + 1) / 2  # (1, H, W), in [0, 1]
    assert made.shape == (1, 1, item.bucket.height // 8, item.bucket.width // 8)
    torch.testing.assert_close(made[0], avg_pool2d(shown, 8), rtol=0, atol=0.02)


def test_mask_is_the_share_of_white_in_every_cell(tmp_path):
    rows = np.zeros((16, 24))
    rows[:8, :8] = 255
    rows[:8, 8:12] = 255
    rows[:4, 16:18] = 255
    rows[8:, :8] = 51
    made = mask_of(tmp_path, (24, 16), (24, 16), gray(rows))
    expected = torch.tensor([[[[1, 0.5, 8 / 64], [0.2, 0, 0]]]])
    torch.testing.assert_close(made, expected, rtol=0, atol=1e-6)
    assert made.dtype == torch.float32


@pytest.mark.parametrize(("size", "scaled"), [((48, 16), 1), ((144, 48), 3), ((24, 8), 0.5)])
def test_mask_is_cut_and_not_squeezed(tmp_path, size, scaled):
    """Of three squares side by side the middle one is seen; its left half is white."""
    rows = np.zeros((size[1], size[0]))
    rows[:, : size[0] // 2] = 255
    made = mask_of(tmp_path, size, (16, 16), gray(rows))
    if scaled >= 1:
        torch.testing.assert_close(made[0, 0], torch.tensor([[1.0, 0.0]] * 2), rtol=0, atol=0.05)
    assert made[0, 0, :, 0].min() > 0.9 > 0.1 > made[0, 0, :, 1].max()


def test_white_stays_white_and_black_black_whatever_the_scaling(tmp_path):
    rows = np.zeros((100, 100))
    rows[:, 50:] = 255
    made = mask_of(tmp_path, (100, 100), (64, 64), gray(rows))
    assert made[..., :3].eq(0).all()
    assert made[..., 5:].eq(1).all()


def test_mask_of_another_size_is_stretched_to_its_picture(tmp_path):
    made = mask_of(tmp_path, (48, 16), (16, 16), gray([[0, 255, 0]]))
    # Between centers 16 apart the line rises from 0 to 1: in the middle third from 1/2 to 1.
    torch.testing.assert_close(made, torch.full((1, 1, 2, 2), 0.75))


@pytest.mark.parametrize(
    ("image", "suffix"),
    [
        (Image.new("RGB", (16, 16), (51, 51, 51)), "png"),
        (Image.new("LA", (16, 16), (51, 0)), "png"),
        (Image.new("RGB", (16, 16), (51, 51, 51)).convert("P"), "png"),
        (Image.fromarray(np.full((16, 16), 13107, np.uint16)), "png"),
    ],
)
def test_every_kind_of_mask_is_read_as_its_gray(tmp_path, image, suffix):
    made = mask_of(tmp_path, (16, 16), (16, 16), image, suffix)
    torch.testing.assert_close(made, torch.full((1, 1, 2, 2), 0.2), rtol=0, atol=1e-6)


def test_alpha_of_a_turned_picture_is_its_mask(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned right: what is on top comes to the right
    picture = Image.new("RGBA", (16, 16), (9, 9, 9, 0))
    picture.paste((9, 9, 9, 102), (0, 0, 16, 8))
    picture.save(tmp_path / "a.png", exif=exif)
    (item,) = index_folder(tmp_path, resolution=64, require_captions=False, masks="alpha").items
    item = replace(item, bucket=Bucket(16, 16))
    made = decode_mask(item, io.BytesIO(item.path.read_bytes()))
    expected = torch.tensor([[[[0.0, 0.4], [0.0, 0.4]]]])
    torch.testing.assert_close(made, expected, rtol=0, atol=1e-6)


def test_damaged_mask_is_told_as_its_pictures_fault(tmp_path):
    item = Item(tmp_path / "a.png", "", 16, 16, Bucket(16, 16), tmp_path / "a-masklabel.png")
    with pytest.raises(PictureError) as error:
        decode_mask(item, io.BytesIO(b"no picture"))
    assert error.value.path == item.path
    assert "a-masklabel.png" in error.value.reason


def draw(bench, name, value, size=(64, 64)):
    """A mask of one gray."""
    Image.new("L", size, value).save(bench.folder / f"{name}-masklabel.png")


def encode_masked(bench, masks="files", **changes):
    items = index_folder(bench.folder, resolution=64, masks=masks).items
    return bench.encode(items=items, **changes)


def test_batch_has_the_masks_of_its_pictures_and_ones_elsewhere(bench):
    draw(bench, "p0", 51)
    dataset = encode_masked(bench)
    plan = BatchPlan([item.bucket for item in dataset.items], batch_size=1, accumulation=3, seed=0)
    step = next(step for step in range(9) if 0 in plan.at(step).pictures)
    assert [dataset.mask(index) is None for index in range(5)] == [False, True, True, True, True]
    for number, (picture,) in enumerate(plan.at(step).microbatches):
        alone = load_batch(dataset, plan.at(step), number, seed=0)
        assert (alone.mask is None) == (picture != 0)
    whole = BatchPlan([item.bucket for item in dataset.items], batch_size=3, accumulation=1, seed=0)
    batch = load_batch(dataset, whole.at(step), 0, seed=0)
    expected = [0.2 if picture == 0 else 1.0 for picture in whole.at(step).pictures]
    assert batch.mask.shape == (len(expected), 1, 8, 8)
    assert batch.mask.mean(dim=(1, 2, 3)).tolist() == pytest.approx(expected)


def test_no_mask_is_asked_for_means_none(bench):
    draw(bench, "p0", 51)
    dataset = bench.encode()
    assert dataset.mask_keys == ("",) * 5
    assert len(dataset.items) == 5


def test_changed_mask_alone_is_read_again_and_no_picture_is_encoded(bench, monkeypatch):
    now = digests.time.time_ns
    monkeypatch.setattr(digests.time, "time_ns", lambda: now() + 60_000_000_000)
    bench.encode()
    bench.family.encoded()
    draw(bench, "p0", 51)
    first = encode_masked(bench)
    draw(bench, "p0", 204)
    second = encode_masked(bench)
    assert bench.family.encoded() == (0, 0)
    assert first.mask(0).mean() == pytest.approx(0.2)
    assert second.mask(0).mean() == pytest.approx(0.8)
    assert first.latent_keys == second.latent_keys
    assert first.mask_keys[0] != second.mask_keys[0]
    assert encode_masked(bench).mask_keys == second.mask_keys


def test_damaged_mask_in_the_cache_is_made_anew(bench):
    draw(bench, "p0", 51)
    before = encode_masked(bench).mask(0)
    entry = next((bench.cache / "masks").rglob("*.safetensors"))
    entry.write_bytes(entry.read_bytes()[:-4])
    again = encode_masked(bench)
    assert len(again.warnings) == 1
    assert "p0-masklabel.png" in again.warnings[0]
    assert torch.equal(again.mask(0), before)


def test_picture_whose_mask_is_cut_off_is_left_out_and_told(bench):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64), dtype=np.uint8)
    path = bench.folder / "p2-masklabel.png"
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:2000])
    dataset = encode_masked(bench)
    assert [item.path.name for item in dataset.items] == ["p0.png", "p1.png", "p3.png", "p4.png"]
    (lost,) = dataset.skipped
    assert lost.path.name == "p2.png"
    assert "p2-masklabel.png" in lost.reason
