"""Thumbnails and sheets: what training sees, and nothing written where other things are."""

import numpy as np
import pytest
from PIL import Image, ImageDraw

from onetrainer.dataset.buckets import Bucket, CropGeometry
from onetrainer.dataset.items import Item
from onetrainer.dataset.transforms import ImageTransform
from onetrainer.errors import UserError
from onetrainer.images.image_file import ImageError
from onetrainer.presets.presets import resolve
from onetrainer.preview.contact_sheet import thumbnail, write_sheets
from onetrainer.preview.dataset_preview import preview_dataset
from tests.images import folder

HALVES = Bucket(64, 64)


@pytest.fixture
def halves(tmp_path):
    """A wide image: a red left half, a blue right half."""
    image = Image.new("RGB", (256, 128), "red")
    image.paste("blue", (128, 0, 256, 128))
    image.save(tmp_path / "halves.png")
    return Item(tmp_path / "halves.png", ("",), 256, 128)


def colors(image):
    """The colors near the left and the right edge, rounded: scaling rings a little."""
    found = np.asarray(image).astype(float)[image.height // 2, [2, image.width - 3]]
    return (found.round(-1).clip(0, 250) / 250).tolist()


def at(left, **changes):
    """The view of a square from so far left on, of the image at half its size."""
    return ImageTransform(CropGeometry(128, 64, left, 0, HALVES), **changes)


RED, BLUE = [1, 0, 0], [0, 0, 1]


def test_a_thumbnail_shows_the_cut_and_no_more(halves):
    assert colors(thumbnail(halves, at(32), 64)) == [RED, BLUE]
    assert colors(thumbnail(halves, at(0), 64)) == [RED, RED]
    assert colors(thumbnail(halves, at(64), 64)) == [BLUE, BLUE]


def test_a_thumbnail_shows_what_is_changed(halves):
    assert colors(thumbnail(halves, at(32, flip=True), 64)) == [BLUE, RED]
    assert colors(thumbnail(halves, at(0, flip=True), 64)) == [BLUE, BLUE]
    darker = colors(thumbnail(halves, at(0, brightness=-0.5), 64))
    assert darker[0] == pytest.approx([0.5, 0, 0], abs=0.03)


def test_deep_images_are_seen_in_their_brightness(tmp_path):
    values = np.full((64, 64), 65535 // 2, dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / "deep.png")
    item = Item(tmp_path / "deep.png", ("",), 64, 64)
    shown = thumbnail(item, ImageTransform(CropGeometry(64, 64, 0, 0, HALVES)), 64)
    assert shown.mode == "RGB"
    assert np.asarray(shown).min() == np.asarray(shown).max() == 127


def test_an_image_that_has_gone_is_reported(halves):
    halves.path.unlink()
    with pytest.raises(ImageError, match="cannot be read"):
        thumbnail(halves, at(0), 64)


@pytest.fixture
def plan(tmp_path):
    data = {"folder": str(folder(tmp_path / "cats", [(64, 64)] * 9 + [(88, 48)] * 2))}
    return preview_dataset(resolve({"data": data | {"resolution": 64}}, source=""))


def test_there_is_a_sheet_for_each_size_with_all_its_images(plan, tmp_path):
    paths = write_sheets(plan, tmp_path / "sheets")
    assert {path.name for path in paths} == {"64x64.jpg", "88x48.jpg"}
    for one, path in zip(plan.buckets, paths, strict=True):
        sheet = np.asarray(Image.open(path).convert("RGB")).astype(int)
        for item, _ in plan.images_of(one.bucket):
            color = np.asarray(Image.open(item.path))[0, 0].astype(int)
            near = (abs(sheet - color).max(-1) < 12).sum()
            assert near > 0.9 * one.bucket.width * one.bucket.height


def test_sheets_are_written_into_empty_folders_alone(plan, tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    for wrong in (full, full / "mine.txt", tmp_path / "cats" / "sheets"):
        with pytest.raises(UserError) as error:
            write_sheets(plan, wrong)
        assert str(wrong) in error.value.what
    assert [path.name for path in full.iterdir()] == ["mine.txt"]
    assert not (tmp_path / "cats" / "sheets").exists()
    (tmp_path / "empty").mkdir()
    assert write_sheets(plan, tmp_path / "empty")


def test_images_are_labeled_by_their_path_below_their_folder(tmp_path, monkeypatch):
    data = {"folder": str(folder(tmp_path / "cats", [(64, 64)])), "include_subfolders": True}
    folder(tmp_path / "cats" / "a quite long name of a folder", [(64, 64)])
    data |= {"concepts": [{"name": "x\ny", "folder": str(folder(tmp_path / "dogs", [(64, 64)]))}]}
    texts = []
    monkeypatch.setattr(ImageDraw.ImageDraw, "text", lambda _, at, text, fill: texts.append(text))
    for changed in (data, {**data, "concepts": []}):
        plan = preview_dataset(resolve({"data": changed | {"resolution": 64}}, source=""))
        write_sheets(plan, tmp_path / f"sheets {len(texts)}")
    assert texts == [
        "cats/0.png", "…long name of a folder/0.png", "x?y/0.png",
        "0.png", "…long name of a folder/0.png",
    ]  # fmt: skip


def test_an_image_that_cannot_be_sampled_leaves_its_place_empty(plan, tmp_path):
    (tmp_path / "cats" / "0.png").write_bytes(b"gone")
    assert len(write_sheets(plan, tmp_path / "sheets")) == 2
