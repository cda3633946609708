"""The dataset preview in the window: what will happen to the images."""

import json
import math

import numpy as np
import pytest
from PIL import Image

from onetrainer.dataset import items, pixel_facts
from onetrainer.dataset.buckets import Bucket, CropGeometry
from onetrainer.dataset.caption_sampling import sample_caption
from onetrainer.dataset.items import Item
from onetrainer.dataset.near_duplicates import AnalysisCancelled
from onetrainer.dataset.transforms import ImageTransform
from onetrainer.errors import UserError
from onetrainer.presets import presets
from onetrainer.preview.contact_sheet import thumbnail
from tests.each import each
from tests.ui.project import write_project
from ui.background.background_query import CancelToken, QueryCancelledError
from ui.background.dataset_preview import (
    PreviewData,
    compute_preview,
    transform_summary,
)
from ui.background.image_check import check_images, finding_groups, result_text
from ui.background.preview_images import crop_corners, crop_overview, transformed_thumbnail
from ui.messages.dataset import facts


@pytest.fixture
def token():
    return CancelToken(lambda *report: None)


def config_of(path, **changes):
    document = json.loads(path.read_text())
    for section, values in changes.items():
        document[section] = {**document.get(section, {}), **values}
    path.write_text(json.dumps(document))
    return presets.resolve(presets.load_document(path), source=str(path))


def preview(project, token, **changes):
    return compute_preview(config_of(project, **changes), token)


def reported(found):
    return {fact.label.strip(): fact.text for fact in facts(found.preview)}


def test_every_image_is_at_one_size_of_each_resolution(project, token):
    buckets = {"buckets": {"resolutions": [{"resolution": 96}, {"resolution": 128}]}}
    found = preview(project, token, data=buckets)
    images = [image.item for size in found.buckets for image in size.images]
    assert sorted(images) == sorted([*range(12)] * 3)
    for size in found.buckets:
        assert all(found.transform(image).bucket == size.bucket for image in size.images)


def test_a_cancelled_preview_stops_comparing_images(project, token, monkeypatch):
    def compare(*_, should_stop):
        token.cancel()
        assert should_stop()
        raise AnalysisCancelled

    monkeypatch.setattr(pixel_facts, "group_features", compare)
    with pytest.raises(QueryCancelledError):
        preview(project, token, validation={"use": True})


def test_a_cancelled_preview_stops_reading_the_folder(project, token, monkeypatch):
    monkeypatch.setattr(items, "WATCHED", 5)
    token.cancel()
    with pytest.raises(QueryCancelledError):
        preview(project, token)


def test_the_facts_are_those_of_the_run(project, token):
    found = preview(project, token)
    words = reported(found)
    assert words["Images"] == "12 training"
    assert words["Epoch"] == "12 images, 3 steps"
    assert words["Run"] == "60 steps, 20 epochs"
    assert words["Total"] == "240 images"
    # 12 images of 8 × 8 latents with mean and deviation of 4 channels, and one caption of 77
    # vectors of 768, each of 4 bytes.
    assert found.preview.cache.image_bytes == 12 * 2 * 4 * 8 * 8 * 4


def test_what_their_owner_should_know_is_marked(project, token):
    (project.parent / "pictures/paper-03.txt").unlink()
    (project.parent / "pictures/bad.png").write_bytes(b"no picture")
    found = preview(project, token, data={"resolution": 128})
    marked = {fact.label: fact for fact in facts(found.preview) if fact.tone == "warning"}
    assert set(marked) == {"Enlarged", "No caption", "Left out"}
    assert marked["Enlarged"].text == "12 images, up to 1.3 times"
    assert marked["Left out"].more[0].startswith("bad.png")
    assert marked["No caption"].more == ("paper-03.png",)


def test_repeats_are_those_of_training(project, token):
    captions = {"shuffle": True, "dropout": 0.3}
    found = preview(project, token, data={"captions": captions, "augmentation": {"flip": "random"}})
    image = found.buckets[0].images[0]
    turns = found.repeats(image)
    item, concept = found.item(image), found.concept(image)
    assert [turn.caption for turn in turns] == [
        sample_caption(item, concept, number) for number in range(8)
    ]
    assert {turn.number for turn in turns} == {0, 1}


def test_a_vae_s_images_have_no_captions(project, token):
    vae = {"method": {"kind": "vae"}, "objective": {"kind": "reconstruction"}}
    found = preview(project, token, **vae)
    (turn,) = found.repeats(found.buckets[0].images[0])
    assert (found.has_captions, turn.caption) == (False, "")


def test_without_images_it_is_shown_what_is_missing(project, token):
    with pytest.raises(UserError, match="no image folder"):
        preview(project, token, data={"folder": ""})
    with pytest.raises(UserError):
        preview(project, token, data={"folder": "/nowhere"})


def test_what_is_done_to_an_image_is_reported_with_what_is_much():
    def words(width, height, geometry, **changes):
        return transform_summary(
            Item(None, ("",), width, height), ImageTransform(geometry, **changes)
        )

    plain = CropGeometry(64, 64, 0, 0, Bucket(64, 64))
    assert words(128, 128, plain) == ("128 × 128  ·  scaled to 50%", False)
    assert words(32, 32, plain) == ("32 × 32  ·  enlarged 2 times", True)
    wide = CropGeometry(128, 64, 0, 0, Bucket(64, 64))
    assert words(256, 128, wide) == ("256 × 128  ·  scaled to 50%  ·  50% cropped", True)
    changed = words(64, 64, plain, flip=True, angle=3.0, hue=5.0)
    assert changed == ("64 × 64  ·  flipped  ·  rotated by 3.0°  ·  recolored", False)


@pytest.fixture
def quarters(tmp_path):
    """Red, green, blue and white quarters of 400 × 200."""
    pixels = np.zeros((200, 400, 3), np.uint8)
    pixels[:100, :200] = (255, 0, 0)
    pixels[:100, 200:] = (0, 255, 0)
    pixels[100:, :200] = (0, 0, 255)
    pixels[100:, 200:] = 255
    path = tmp_path / "quarters.png"
    Image.fromarray(pixels).save(path)
    return Item(path, ("",), 400, 200)


@each("angle", [0.0, 12.0, -30.0])
@each("flip", [False, True])
def test_a_small_image_is_the_large_one_made_small(quarters, angle, flip):
    view = ImageTransform(
        CropGeometry(800, 400, 260, 40, Bucket(320, 256)), flip=flip, angle=angle, hue=40
    )
    small = np.asarray(transformed_thumbnail(quarters, view, 80), np.float32)
    large = np.asarray(thumbnail(quarters, view, 80), np.float32)
    assert small.shape == large.shape == (64, 80, 3)
    assert np.abs(small - large).mean() < 4


@each("angle", [0.0, 25.0, -40.0])
def test_the_corners_are_where_the_cut_s_pixels_come_from(tmp_path, angle):
    y, x = np.mgrid[0:200, 0:300]
    places = np.stack([x // 2, y, np.zeros_like(x)], -1).astype(np.uint8)
    path = tmp_path / "places.png"
    Image.fromarray(places).save(path)
    cut = ImageTransform(CropGeometry(300, 200, 110, 70, Bucket(80, 64)), angle=angle)
    shown = np.asarray(thumbnail(Item(path, ("",), 300, 200), cut, 80), np.float32)
    seen = [shown[row, column] for row, column in ((0, 0), (0, -1), (-1, -1), (-1, 0))]
    for (across, down), (red, green, _) in zip(crop_corners(cut), seen, strict=True):
        assert math.hypot(across - 2 * red, down - green) < 4


def test_what_is_cut_off_is_dark_and_what_is_shown_is_not(quarters):
    view = ImageTransform(CropGeometry(400, 200, 200, 0, Bucket(200, 200)))
    whole = np.asarray(crop_overview(quarters, view, (200, 200), "#0000ff"), np.int32)
    assert whole.shape == (100, 200, 3)
    assert tuple(whole[25, 50]) == (97, 0, 0)  # red, at 38 % of its light
    assert tuple(whole[25, 150]) == (0, 255, 0)
    assert tuple(whole[50, 100]) == (0, 0, 255)  # the line around it


def test_findings_are_grouped_by_kind(tmp_path, token):
    project = write_project(tmp_path / "project")
    images = project.parent / "pictures"
    (images / "lost.txt").write_text("nobody")
    (images / "bad.png").write_bytes(b"no picture")
    checked = check_images(config_of(project), token)
    kinds = {kind.key: kind.count for kind in finding_groups(checked.findings)}
    assert kinds[""] == len(checked.findings) == sum(kinds.values()) - kinds[""]
    assert (kinds["unreadable"], kinds["orphan"]) == (1, 1)
    assert result_text(checked).startswith("12 images checked: ")


def test_images_are_examined_after_the_first_answer_and_then_known(project, monkeypatch):
    # Files this new are not relied on, which is no matter here.
    monkeypatch.setattr("onetrainer.images.header.SETTLED_NS", 0)
    cut = project.parent / "pictures/paper-03.png"
    cut.write_bytes(cut.read_bytes()[:-40])
    first: list[PreviewData] = []
    token = CancelToken(lambda *report: None, first.append)
    validation = {"use": True, "split": 0.3, "keep_similar": True}
    found = preview(project, token, validation=validation)
    assert reported(first[0])["Not final"] == "12 images not examined yet"
    assert reported(first[0])["Validation split"] == "may change until all are examined"
    assert not {"Validation split", "Not final"} & set(reported(found))
    assert reported(found)["Left out"] == "1 image"
    assert preview(project, token).preview.skipped == found.preview.skipped
    assert len(first) == 1  # nothing is written, yet this process knows them


def test_a_check_can_be_given_up(project, token):
    token.cancel()
    with pytest.raises(QueryCancelledError):
        check_images(config_of(project), token)
