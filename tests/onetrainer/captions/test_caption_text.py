"""Caption files are read and written as the program reads them, and otherwise stay as they are."""

import pytest

from onetrainer.captions.caption_file import CaptionError, read_captions
from onetrainer.captions.caption_text import (
    CaptionText,
    caption_change,
    new_caption_path,
    read_caption_text,
)
from onetrainer.concepts.folder_listing import list_folder
from tests.each import each


@each(
    "before, lines, after",
    [
        (b"a cat", ["a dog"], b"a dog"),
        (b"a cat\n", ["a dog", " in  a\thouse"], b"a dog\nin a house\n"),
        (b"a cat\r\n\r\nb\r\n", ["a", "", "b", "c"], b"a\r\nb\r\nc\r\n"),
        (b"\xef\xbb\xbfk\xc3\xa4se", ["käse", "brot"], "käse\nbrot".encode()),
        ("käse\n".encode("utf-16"), ["käse", "x"], "käse\nx".encode()),
        (b"k\xe4se", ["käsebrot"], "käsebrot".encode()),
        (b"k\xe4se", ["käse"], b"k\xe4se"),
        (b"  a cat  \n\n", ["a cat"], b"  a cat  \n\n"),
        (b"a cat", ["", " "], b""),
        (b"", ["a cat"], b"a cat\n"),
        (None, ["a cat"], b"a cat\n"),
        (None, [" "], None),
    ],
)
def test_a_change_writes_what_is_read_and_keeps_what_it_can(tmp_path, before, lines, after):
    path = tmp_path / "cat.txt"
    if before is not None:
        path.write_bytes(before)
    text = read_caption_text(path)
    change = caption_change(text, lines)
    assert (change.path, change.before, change.after) == (path, before, after)
    if after:
        path.write_bytes(after)
        expected = tuple(line for each in lines if (line := " ".join(each.split())))
        assert read_captions(path, lines="each") == expected


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "cat.txt"
    for content in (b"a\0b", b"a" * (1 << 21), b"\xff\xfea"):
        path.write_bytes(content)
        with pytest.raises(CaptionError, match="UTF-8"):
            read_caption_text(path)
    assert read_caption_text(tmp_path / "none.txt") == CaptionText(tmp_path / "none.txt")


def test_a_new_caption_file_is_the_one_that_is_read(tmp_path):
    for name in ("cat.v2.png", "dog.jpg"):
        (tmp_path / name).touch()
        path = new_caption_path(tmp_path / name)
        path.with_suffix(".caption").touch()
        path.touch()
        found = {
            image.path.name: image.caption
            for image in list_folder(tmp_path, recursive=False).images
        }
        assert found[name] == path
