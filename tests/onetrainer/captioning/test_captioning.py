"""What is written of results: texts, masks, and never over what a person wrote."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageDraw

from onetrainer.captioning.changes import propose
from onetrainer.captioning.masks import mask_image
from onetrainer.captioning.messages import fate_texts, taken_back_lines, written_lines
from onetrainer.captioning.own_files import own_files
from onetrainer.captioning.results import JobFolder, Result, stamp_of
from onetrainer.captioning.texts import caption_text
from onetrainer.captioning.writing import can_take_back, take_back_last, write
from onetrainer.concepts.concepts import ConceptSettings
from onetrainer.dataset.items import index_concept
from onetrainer.edits.history import EditHistory
from onetrainer.edits.saving import Change, Saved, save, take_back
from onetrainer.errors import UserError
from onetrainer.jobs.caption_request import CaptionRequest, CaptionWriting, MaskWriting
from onetrainer.run.user_folder import user_folder

TAGS = Result(
    "a.png",
    "",
    tags={"red_hair": 0.4, "1girl": 0.99, "^_^": 0.36, "blue_sky": 0.3},
    characters={"ann_(series)": 0.9, "mia_(series)": 0.8},
    rating="general",
)


@pytest.fixture(autouse=True)
def own_user_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for name in ("a", "b", "c", "d"):
        Image.new("RGB", (40, 20)).save(folder / f"{name}.png")
    return folder


@pytest.fixture
def history(tmp_path):
    return EditHistory(tmp_path / "history")


def found(images, texts, makes="captions", model="model"):
    """The folder of a job that has found these texts."""
    job = JobFolder(CaptionRequest(images=str(images), model=model, makes=makes))
    with job.adding() as results:
        for name, text in texts.items():
            results.add([Result(f"{name}.png", stamp_of(images / f"{name}.png"), text)])
    return job


def masked(images, name, mask):
    return Result(f"{name}.png", stamp_of(images / f"{name}.png"), mask=mask)


def writes(job, images, history, **options):
    """Writes, and returns the number of images by what became of them."""
    writing = CaptionWriting(**options)
    written = write(propose(job, own_files(images), writing), images, "Captions", history)
    return dict(written.fates)


def captions(images):
    return {path.stem: path.read_text().strip() for path in sorted(images.glob("*.txt"))}


def test_tags_become_a_caption_by_thresholds_and_wishes():
    for options, expected in (
        ({}, "1girl, red hair, ^_^, ann (series)"),
        ({"threshold": 0.5, "character_threshold": 0.75}, "1girl, ann (series), mia (series)"),
        ({"keep_underscores": True}, "1girl, red_hair, ^_^, ann_(series)"),
        ({"exclude": "Red hair, ^_^ ,ann_(series)", "rating": True}, "1girl, general"),
        ({"prefix": " ohwx  girl "}, "ohwx girl, 1girl, red hair, ^_^, ann (series)"),
        ({"prefix": "1GIRL"}, "1girl, red hair, ^_^, ann (series)"),
    ):
        assert caption_text(TAGS, CaptionWriting(**options)) == expected
    text = Result("a.png", "", "A cat\n on a sofa.")
    assert caption_text(text, CaptionWriting(prefix="ohwx.")) == "ohwx. A cat on a sofa."


def test_a_persons_captions_are_changed_only_as_they_ask(images, history):
    (images / "b.txt").write_text("mine\nmine too")
    (images / "c.txt").write_text(" \n")
    (images / "d.txt").write_bytes(b"\0\1")
    job = found(images, dict.fromkeys("abcd", "found"))
    assert writes(job, images, history) == {"new": 1, "kept": 1, "changed": 1, "failed": 1}
    assert captions(images) == {"a": "found", "b": "mine\nmine too", "c": "found", "d": "\0\1"}
    assert writes(job, images, history) == {"same": 2, "kept": 1, "failed": 1}
    assert writes(job, images, history, existing="after") == {"same": 2, "changed": 1, "failed": 1}
    assert captions(images)["b"] == "mine, found\nmine too, found"
    again = {**dict.fromkeys("adb", "other"), "c": ""}
    job = found(images, again, model="another")  # it may replace what the first one wrote
    fates = {"changed": 1, "kept": 1, "empty": 1, "failed": 1}
    assert writes(job, images, history) == fates
    writes(job, images, history, existing="before")  # in place of the first one's, not beside it
    assert captions(images)["b"] == "other, mine\nother, mine too"
    writes(job, images, history, existing="replace")
    assert captions(images) == {"a": "other", "b": "other", "c": "found", "d": "\0\1"}
    (images / "a.txt").write_text("corrected by hand")
    assert writes(job, images, history, prefix="x")["kept"] == 1
    assert captions(images)["a"] == "corrected by hand"


def test_writing_can_be_taken_back_one_after_the_other(images, history):
    (images / "b.txt").write_text("mine")
    job = found(images, dict.fromkeys("ab", "found"))
    writes(job, images, history)
    writes(job, images, history, existing="after", prefix="x")
    assert captions(images) == {"a": "x, found", "b": "mine, x, found"}
    (images / "a.txt").write_text("corrected by hand")
    for number in range(201):  # the history lists so many at a time
        history.add("Captions edited", [(images / "note.txt", None, b"%d" % number)])
    assert can_take_back(images, history) == 2
    back = take_back_last(images, history)
    assert captions(images) == {"a": "corrected by hand", "b": "mine"}
    assert list(taken_back_lines(back)) == [
        "1 file has again what they held before.",
        "Left as they are, since they were changed afterwards: a.txt.",
    ]


def test_batches_of_another_history_are_not_taken_back(images, history, tmp_path):
    job = found(images, {"a": "found"})
    writes(job, images, history)
    first = history.last()
    (tmp_path / "history" / "edits.sqlite").rename(tmp_path / "moved")
    save([Change(images / "b.txt", None, b"mine")], "By hand", history)
    assert history.last().number == first.number
    assert (can_take_back(images, history), take_back_last(images, history).files) == (0, 0)
    assert take_back(first, history) == Saved()
    assert captions(images) == {"a": "found", "b": "mine"}


def test_writings_that_an_earlier_version_noted_can_be_taken_back(images, history, tmp_path):
    job = found(images, {"a": "found", "b": "found"})
    writes(job, images, history)
    (note,) = (user_folder() / "captioning").glob("batches-*")
    note.write_text(json.dumps([[number for number, _ in json.loads(note.read_text())[0]]]))
    writes(job, images, history, existing="after", prefix="x")
    assert [take_back_last(images, history).files for _ in range(3)] == [2, 2, 0]
    assert captions(images) == {}
    # Of a history that was moved away since: its numbers are those of later batches now.
    writes(job, images, history)
    note.write_text("[[1]]")
    os.utime(note, (0, 0))
    (tmp_path / "history" / "edits.sqlite").rename(tmp_path / "moved")
    save([Change(images / "c.txt", None, b"mine")], "By hand", history)
    assert can_take_back(images, history) == 0


def test_what_cannot_be_written_is_named(images, history):
    job = found(images, dict.fromkeys("abc", "found"))
    (images / "b.txt").write_text("")
    (images / "b.txt").chmod(0o444)
    proposals = list(propose(job, {}, CaptionWriting()))
    (images / "a.txt").write_text("written meanwhile")
    written = write(proposals, images, "Captions", history)
    assert list(written_lines(written, "captions")) == [
        "1 caption written.",
        "Not written, since another program changed them meanwhile: a.txt.",
        "Not written (it is read-only): b.txt.",
    ]
    assert fate_texts(written.fates) == [("New", 2), ("Changed", 1)]


def test_two_images_of_one_name_do_not_share_a_caption(images, history):
    Image.new("RGB", (8, 8)).save(images / "a.jpg")
    job = found(images, dict.fromkeys("ab", "found"))
    with job.adding() as results:
        results.add([Result("a.jpg", stamp_of(images / "a.jpg"), "another")])
        results.add([Result("c.png", stamp_of(images / "c.png"), error="damaged")])
    texts = {each.image.name: each.text for each in propose(job, {}, CaptionWriting())}
    assert texts["a.jpg"] == "another"
    assert texts["a.png"] == "a.jpg has the same name, and so this file"
    assert texts["c.png"] == "damaged"


def test_a_mask_has_the_images_size_and_grows_by_what_is_asked():
    disc = Image.new("L", (100, 100))
    ImageDraw.Draw(disc).ellipse((30, 30, 70, 70), fill=200)

    def radius(**options):
        mask = mask_image(disc, (400, 400), MaskWriting(**{"feather": 0} | options))
        assert mask.size == (400, 400)
        return (np.asarray(mask) > 127).sum() ** 0.5 / np.pi**0.5

    plain = radius()
    assert abs(plain - 80) < 2  # 20 of 100 pixels at four times the size
    assert abs(radius(grow=2) - plain - 8) < 1  # pixels; curved edges move a little less or more
    assert abs(radius(grow=-2) - plain + 8) < 1
    assert abs(radius(feather=2) - plain) < 2
    assert radius(threshold=0.9) == 0
    inverted = mask_image(disc, (100, 100), MaskWriting(threshold=0, feather=0, invert=True))
    assert {inverted.getpixel((50, 50)), inverted.getpixel((0, 0))} == {55, 255}


def test_masks_are_written_beside_their_images_and_a_persons_are_kept(images, history):
    Image.new("L", (40, 20), 100).save(images / "b-masklabel.png")
    mine = (images / "b-masklabel.png").read_bytes()
    job = JobFolder(CaptionRequest(images=str(images), model="model", makes="masks"))
    with job.adding() as results:
        Image.new("L", (8, 8), 255).save(job.masks / "white.png")
        results.add(masked(images, n, "white.png") for n in "abc")
        results.add([masked(images, "d", "gone.png")])

    def fates(**options):
        proposals = propose(job, own_files(images), MaskWriting(**options))
        return dict(write(proposals, images, "Masks", history).fates)

    assert fates() == {"new": 2, "kept": 1, "failed": 1}
    with Image.open(images / "a-masklabel.png") as mask:
        assert (mask.size, mask.mode, mask.getextrema()) == ((40, 20), "L", (255, 255))
    assert fates() == {"same": 2, "kept": 1, "failed": 1}
    for changed, options in ((0, {}), (2, {"feather": 5})):  # also without making them
        own, writing = own_files(images), MaskWriting(**options)
        quick = [each.fate for each in propose(job, own, writing, makes_masks=False)]
        assert quick.count("changed") == changed
    assert fates(existing="replace", invert=True) == {"changed": 3, "failed": 1}
    take_back_last(images, history)
    assert (images / "b-masklabel.png").read_bytes() == mine


def test_masks_go_where_training_looks_for_them_and_never_over_an_image(images, history, tmp_path):
    masks = tmp_path / "masks"
    masks.mkdir()
    Image.new("L", (40, 20), 100).save(masks / "b.webp")
    Image.new("L", (40, 20), 100).save(images / "a-masklabel.png")  # which training does not read
    job = JobFolder(CaptionRequest(images=str(images), model="model", makes="masks"))
    with job.adding() as results:
        Image.new("L", (8, 8), 255).save(job.masks / "white.png")
        results.add(masked(images, n, "white.png") for n in "abcd")

    def fates(folder):
        writing = MaskWriting(mask_folder=str(folder), existing="replace")
        return [each.fate for each in propose(job, {}, writing)]

    writing = MaskWriting(mask_folder=str(masks))
    written = write(propose(job, {}, writing), images, "Masks", history)
    assert dict(written.fates) == {"new": 3, "kept": 1}
    trained = ConceptSettings("data.folder", "images", images, masks="files", mask_folder=masks)
    trained = replace(trained, require_captions=False)
    found = {item.path.stem: item.mask for item in index_concept(trained).items}
    assert found == {"a": masks / "a.png", "b": masks / "b.webp"} | {
        name: masks / f"{name}.png" for name in "cd"
    }
    (tmp_path / "same").symlink_to(images)
    assert fates(images) == fates(tmp_path / "same") == ["failed"] * 4


def test_results_outlive_what_is_cut_off_and_follow_what_changes(images):
    job = found(images, dict.fromkeys("abcd", "found"))
    assert job.missing() == []
    job.results.write_bytes(job.results.read_bytes()[:-20])
    assert [image.name for image in job.missing()] == ["d.png"]
    with job.adding() as results:
        results.add([Result("d.png", stamp_of(images / "d.png"), "again")])
        with pytest.raises(UserError, match="another process"), job.adding():
            pass
    Image.new("RGB", (41, 20)).save(images / "b.png")
    assert [image.name for image in job.missing()] == ["b.png"]
    assert job.read()["d.png"].text == "again"
    # Of another image than the one that was described nothing is written.
    proposed = propose(job, {}, CaptionWriting())
    assert [each.image.name for each in proposed] == ["a.png", "c.png", "d.png"]


def test_a_preview_and_the_whole_share_their_results_but_other_questions_do_not(images):
    request = CaptionRequest(images=str(images), model="m")
    preview = JobFolder(request.model_copy(update={"limit": 2, "batch_size": 4}))
    assert preview.path == JobFolder(request).path
    assert [image.name for image in preview.listed()] == ["a.png", "c.png"]
    others = {"prompt": "Why?", "max_tokens": 9, "model": "n", "makes": "masks"}
    folders = {JobFolder(request.model_copy(update={k: v})).path for k, v in others.items()}
    assert len(folders | {preview.path}) == len(others) + 1
    document = json.loads(preview.write_request().config.read_text())
    assert document == {"job": "caption", "request": {"images": str(images), "model": "m"} | {
        "limit": 2, "batch_size": 4}}  # fmt: skip
    with pytest.raises(UserError, match="does not exist"):
        JobFolder(CaptionRequest(images=str(images / "none"), model="m")).listed()
