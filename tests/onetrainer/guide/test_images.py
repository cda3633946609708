"""What is found in an image folder, also in one that nobody can train on."""

import os

import pytest
from PIL import Image

from onetrainer.guide.images import look_at_images


class LeftError(Exception):
    pass


def look(folder, reports=None, check=lambda: None):
    return look_at_images(folder, (reports if reports is not None else []).append, check)


def write(folder, count, *, captions=0, text="a cat, number {}"):
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        Image.new("RGB", (64, 48)).save(folder / f"{index}.png")
        if index < captions:
            (folder / f"{index}.txt").write_text(text.format(index))


def test_images_and_captions_are_counted_and_the_first_different_captions_are_kept(tmp_path):
    write(tmp_path, 7, captions=5)
    (tmp_path / "1.txt").write_text("a cat, number 0")
    reports = []
    found = look(tmp_path, reports)
    assert (found.images, found.captions, found.problem, found.warnings) == (7, 5, "", ())
    texts = [item.caption for item in found.captioned]
    assert texts == ["a cat, number 0", "a cat, number 2", "a cat, number 3"]
    assert [path.name for path in found.first] == [f"{index}.png" for index in range(7)]
    assert (reports[0].images, reports[0].is_complete, found.is_complete) == (7, False, True)


def test_subfolders_are_included_where_the_folder_itself_has_no_images(tmp_path):
    write(tmp_path / "inner", 6)
    assert look(tmp_path).concept.recursive
    write(tmp_path, 5)
    assert not look(tmp_path).concept.recursive


def test_broken_images_are_named_and_left_out(tmp_path):
    write(tmp_path, 6)
    (tmp_path / "3.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    cut, reports = tmp_path / "4.png", []
    cut.write_bytes(cut.read_bytes()[:-30])  # its header is sound
    found = look(tmp_path, reports)
    counts = [(each.images, each.is_complete, each.is_checked) for each in reports]
    assert counts[:2] == [(6, False, False), (5, True, False)]
    assert reports[-1].decoded == 5
    assert (found.images, found.is_checked) == (4, True)
    assert [warning.partition(":")[0] for warning in found.warnings] == [
        "2 images cannot be used",
        "These are few images",
    ]
    assert not {"3.png", "4.png"} & {path.name for path in found.first}
    for index in range(6):
        (tmp_path / f"{index}.png").write_bytes(cut.read_bytes())
    assert "none of its 6 images can be used" in look(tmp_path).problem


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_one_sentence(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0)
    assert "cannot be read" in look(folder).problem


def test_what_is_no_folder_of_images_is_one_sentence_each(tmp_path):
    (tmp_path / "empty").mkdir()
    write(tmp_path / "other", 0)
    (tmp_path / "other" / "note.txt").write_text("no image")
    (tmp_path / "file").write_text("")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    for name, words in (
        ("missing", "there is no such folder"),
        ("empty", "is empty"),
        ("other", "has no images"),
        ("file", "is a file, not a folder"),
        ("broken", "none of its 1 images can be used"),
        ("n" * 300, "cannot be read"),
    ):
        found = look(tmp_path / name)
        assert words in found.problem, name
        assert found.problem.endswith("; choose a folder of images."), name
        assert (found.images, found.first, found.is_complete) == (0, (), True)


def test_a_look_that_is_no_longer_wanted_ends_among_many_images(tmp_path):
    for index in range(450):
        (tmp_path / f"{index}.png").write_bytes(b"")
    looked = []

    def check():
        looked.append(1)
        raise LeftError

    with pytest.raises(LeftError):
        look(tmp_path, check=check)
    assert len(looked) == 1
