"""Caption files are read a caption a line, or all as one, in any encoding."""

import pytest

from onetrainer.captions.caption_file import MAX_BYTES, CaptionError, read_captions
from tests.each import each


def written(tmp_path, data):
    path = tmp_path / "a.txt"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@each(
    ("text", "each", "joined"),
    [
        ("a cat", ("a cat",), "a cat"),
        (" a\tcat \n\n  \r\n a dog\rbirds\n", ("a cat", "a dog", "birds"), "a cat a dog birds"),
        ("a\na", ("a", "a"), "a a"),
        ("a\u2028b\x0bc", ("a b c",), "a b c"),
        ("# 1, b", ("# 1, b",), "# 1, b"),
        ("", ("",), ""),
        (" \n\n", ("",), ""),
    ],
)
def test_lines_are_captions_each_or_joined(tmp_path, text, each, joined):
    path = written(tmp_path, text)
    assert read_captions(path, lines="each") == each
    assert read_captions(path, lines="joined") == (joined,)


@each(
    "data",
    [
        "café\n猫".encode(),
        b"\xef\xbb\xbf" + "café\n猫".encode(),
        "café\n猫".encode("utf-16"),
        b"\xfe\xff" + "café\n猫".encode("utf-16-be"),
    ],
)
def test_lines_are_reported_apart_in_every_encoding(tmp_path, data):
    assert read_captions(written(tmp_path, data), lines="each") == ("café", "猫")


def test_dots_of_windows_text_end_no_line(tmp_path):
    path = written(tmp_path, "wait… café".encode("cp1252"))
    assert read_captions(path, lines="each") == ("wait… café",)


@each(
    ("data", "reported"),
    [
        (b"a\0b", "no text"),
        (b"x" * (MAX_BYTES + 1), "larger than 1 MB"),
        (b"\x81\x8d", "no text in a known encoding"),
        (b"\xff\xfea", "no text in a known encoding"),
    ],
)
def test_what_is_no_text_is_reported(tmp_path, data, reported):
    with pytest.raises(CaptionError, match=reported):
        read_captions(written(tmp_path, data), lines="each")


def test_missing_file_is_reported(tmp_path):
    with pytest.raises(CaptionError, match="cannot be read"):
        read_captions(tmp_path / "a.txt", lines="each")
