"""The images of the page: listed, filtered, changed in batches, saved and taken back. No Tk."""

import gc
import threading
import tracemalloc

import pytest
from PIL import Image

from onetrainer.captions.tag_edits import TextSearch, replacing
from onetrainer.concepts.folder_listing import FolderImage
from onetrainer.config.train import TrainConfig
from onetrainer.edits.history import EditHistory
from onetrainer.edits.saving import Change
from onetrainer.errors import UserError
from onetrainer.images.findings import Finding
from tests.onetrainer.dataset.test_item_table import many
from tests.ui.pumping import deliver_until
from ui.background.background_query import CancelToken
from ui.background.threads import Jobs
from ui.editing.caption_batch import differences, plan_batch
from ui.editing.image_filter import (
    NO_CAPTION,
    NO_MASK,
    UNUSABLE,
    ImageFilter,
    bucket_counts,
    choices,
    matching,
    tag_counts,
)
from ui.editing.image_list import read_images
from ui.editing.image_rows import Listed, Rows
from ui.editing.saver import Saver


@pytest.fixture
def folders(tmp_path):
    """Two folders: of cats with captions, masks and a broken image; of dogs without captions."""
    for folder, size, names in (("cats", (96, 96), "123"), ("dogs", (64, 96), "45")):
        (tmp_path / folder).mkdir()
        for name in names:
            Image.new("RGB", size).save(tmp_path / folder / f"{name}.png")
    cats = tmp_path / "cats"
    (cats / "1.txt").write_text("cat, sofa")
    (cats / "2.txt").write_text("Cat,red\na red cat\n")
    Image.new("L", (96, 96)).save(cats / "1-masklabel.png")
    (cats / "broken.png").write_bytes(b"no image")
    return tmp_path


def read(folders, **data):
    config = TrainConfig.model_validate(
        {
            "data": {
                "folder": str(folders / "cats"),
                "resolution": 64,
                "concepts": [{"name": "dogs", "folder": str(folders / "dogs"), **data}],
                "masks": "files",
            },
            "output": {"folder": str(folders / "runs")},
        }
    )
    early = []
    images = read_images(config, CancelToken(lambda *_: None, early.append))
    assert [row.path for row in early[0].rows] == [row.path for row in images.rows]
    assert gc.isenabled()
    return images


def names(images, wanted, findings=()):
    return [images.rows[index].name for index in matching(images, wanted, findings)]


def test_all_images_are_listed_also_broken_ones_and_ones_without_captions(folders):
    images = read(folders)
    assert [row.name for row in images.rows] == [
        "1.png",
        "2.png",
        "3.png",
        "broken.png",
        "4.png",
        "5.png",
    ]
    one, two, three, broken, four, _ = images.rows
    assert one.captions == ("cat, sofa",) and two.captions == ("Cat,red", "a red cat")
    assert one.mask == images.mask_path(one) == folders / "cats" / "1-masklabel.png"
    assert images.mask_path(two).name == "2-masklabel.png" and two.mask is None
    assert not three.has_caption and three.caption_path == folders / "cats" / "3.txt"
    assert broken.item is None and "not a PNG" in broken.reason
    assert four.buckets != one.buckets


def test_a_mask_is_painted_where_training_reads_it_and_never_over_an_image(folders):
    Image.new("L", (64, 96)).save(folders / "dogs" / "4-masklabel.png")  # which training ignores
    masks = folders / "masks"
    before = read(folders, mask_folder=str(masks))  # that is not there yet
    dog = before.rows[4]
    assert dog.mask is None and before.mask_locked(dog) == ""
    assert before.mask_path(dog) == masks / "4.png"
    masks.mkdir()
    Image.new("L", (64, 96)).save(masks / "4.webp")
    after = read(folders, mask_folder=str(masks))
    dog = after.rows[4]
    assert dog.item.mask == dog.mask == after.mask_path(dog) == masks / "4.webp"
    for wrong in (folders / "dogs", folders / "cats" / ".." / "dogs"):
        same = read(folders, mask_folder=str(wrong))
        assert "would replace an image" in same.mask_locked(same.rows[4])


def test_images_are_filtered_by_everything_that_is_known_of_them(folders):
    images = read(folders)
    tall = images.rows[4].buckets[0]
    findings = [
        Finding("duplicate", folders / "cats" / "2.png", "", "", folders / "dogs" / "4.png"),
        Finding("caption-missing", folders / "cats" / "3.png", "", ""),
    ]
    for wanted, expected in (
        (ImageFilter(), "1 2 3 broken 4 5"),
        (ImageFilter(NO_CAPTION), "3 broken 4 5"),
        (ImageFilter(NO_MASK), "2 3 broken 4 5"),
        (ImageFilter(UNUSABLE), "broken"),
        (ImageFilter("Duplicate"), "2 4"),
        (ImageFilter(NO_CAPTION, concept=0), "3 broken"),
        (ImageFilter(bucket=tall), "4 5"),
        (ImageFilter(tag="CAT"), "1 2"),
        (ImageFilter(text="RED cat"), "2"),
        (ImageFilter(text="brok"), "broken"),
    ):
        found = [name.removesuffix(".png") for name in names(images, wanted, findings)]
        assert found == expected.split(), wanted
    assert choices(findings) == ["All images", NO_CAPTION, NO_MASK, UNUSABLE, "Duplicate"]
    assert bucket_counts(images) == [(images.rows[0].buckets[0], 3), (tall, 2)]
    assert list(tag_counts(images, [0, 1, 4])) == [
        ("cat", 2),
        ("a red cat", 1),
        ("red", 1),
        ("sofa", 1),
    ]


def test_captions_of_other_sources_and_alpha_masks_are_locked(folders):
    images = read(folders, caption_source="text", caption_text="a dog", masks="alpha")
    dog = images.rows[4]
    assert "one caption for all" in images.caption_locked(dog)
    assert "never changed" in images.mask_locked(dog)
    assert images.mask_locked(images.rows[3]) and not images.mask_locked(images.rows[0])
    assert not images.caption_locked(images.rows[0])
    plan = plan_batch(images, [4], lambda text, _: "new")
    assert not plan.changes and plan.skipped[0][0] == "4.png"


def test_a_batch_is_planned_saved_undone_and_redone(folders):
    images, jobs = read(folders), Jobs()
    (folders / "cats" / "3.txt").write_bytes(b"no\0text")
    replace = replacing(TextSearch("cat", "dog"))
    plan = plan_batch(images, range(6), lambda text, _: replace(text) or "new")
    assert [(each.name, each.after) for each in plan.changes] == [
        ("1.png", ("dog, sofa",)),
        ("2.png", ("dog,red", "a red dog")),
        ("broken.png", ("new",)),
        ("4.png", ("new",)),
        ("5.png", ("new",)),
    ]
    assert [name for name, _ in plan.skipped] == ["3.png"]
    said, steps = [], []
    saver = Saver(
        jobs, said.append, lambda: steps.append(saver.steps), EditHistory(folders / "state")
    )
    saver.save([each.change for each in plan.changes], "Replace", said.append)
    deliver_until(jobs, lambda: steps)
    assert len(said[0].written) == 5 and steps[-1].undo.about == "Replace"
    changed = images.updated(said[0].written)
    assert {images.rows[index].name for index in changed} == {
        change.name for change in plan.changes
    }
    assert changed[1].captions == ("dog,red", "a red dog") and changed[4].has_caption
    saver.undo(said.append)
    deliver_until(jobs, lambda: steps[-1].redo)
    assert (folders / "cats" / "1.txt").read_text() == "cat, sofa"
    assert not (folders / "dogs" / "4.txt").exists()
    saver.redo(said.append)
    deliver_until(jobs, lambda: steps[-1].redo is None)
    assert (folders / "dogs" / "4.txt").read_text() == "new\n"
    (folders / "state" / "edits.sqlite").write_bytes(b"damaged" * 100)
    saver.undo(said.append)
    deliver_until(jobs, lambda: isinstance(said[-1], UserError))


def test_what_waits_behind_a_long_batch_is_read_edited_and_undone_as_if_it_were_written(folders):
    images, jobs, said = read(folders), Jobs(), []
    path, history = folders / "cats" / "1.txt", EditHistory(folders / "state")
    saver = Saver(jobs, said.append, lambda: None, history)
    with history.locked():
        saver.save([Change(path, b"cat, sofa", b"dog")], "First", said.append)
        (planned,) = plan_batch(images, [0], lambda text, _: f"{text}, red", saver.read).changes
        assert planned.after == ("dog, red",)
        saver.save([planned.change], "Second", said.append)
        assert saver.read(path) == b"dog, red" and path.read_bytes() == b"cat, sofa"
        saver.save([Change(path, b"dog, red", b"dog, blue")], "Third", said.append)
        saver.undo(said.append)
        assert not said
    jobs.forget()  # the window is closed
    assert [saved.written for saved in said] == [(path,)] * 4
    assert path.read_bytes() == b"dog, red" and saver.steps.undo.about == "Second"
    path.write_bytes(b"theirs")
    assert saver.read(path) == b"theirs"


def test_what_is_slow_to_make_is_made_in_the_background_and_read_before_it_is_written(folders):
    jobs, said, gate = Jobs(), [], threading.Event()
    path = folders / "cats" / "2-masklabel.png"
    saver = Saver(jobs, said.append, lambda: None, EditHistory(folders / "state"))

    def make():
        assert gate.wait(60)
        return Change(path, None, b"slow")

    saver.save_made(path, make, "Save it", said.append)
    assert not path.exists()
    gate.set()
    assert saver.read(path) == b"slow"
    jobs.forget()  # the window is closed
    assert said[0].written == (path,) and path.read_bytes() == b"slow"


def test_a_row_takes_little_more_than_its_names_and_caption(tmp_path):
    images = [item.path for item in many(10_000)]
    listed = [
        Listed(FolderImage(item.path, item.name, item.path.with_suffix(".txt")), 0, item)
        for item in many(len(images))
    ]
    assert all(str(each.image.path) and str(each.image.caption) for each in listed)
    tracemalloc.start()
    try:
        rows = Rows(listed)
        taken = tracemalloc.get_traced_memory()[0] / len(rows)
    finally:
        tracemalloc.stop()
    assert taken < 300
    assert rows.index_of(images[-1]) == len(images) - 1 and rows.index_of(tmp_path) == -1


def test_a_difference_is_shown_by_words():
    assert differences("a red cat", "a cat, big") == [
        ("same", "a"),
        ("removed", "red cat"),
        ("added", "cat, big"),
    ]
    assert differences("", "new") == [("added", "new")]


def test_without_images_it_says_why(tmp_path):
    (tmp_path / "empty").mkdir()
    for data, words in (
        ({}, "no image folder is selected"),
        ({"folder": str(tmp_path / "gone")}, "there is no such folder"),
        ({"folder": str(tmp_path / "empty")}, "is empty"),
    ):
        config = TrainConfig.model_validate({"data": data})
        with pytest.raises(UserError, match=words):
            read_images(config, CancelToken(lambda *_: None))
