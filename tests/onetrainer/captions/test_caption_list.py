"""Lists of captions are read in every format, matched with images, and faults are reported."""

import json

import pytest

from onetrainer.captions.caption_list import read_caption_list
from onetrainer.errors import UserError
from tests.each import each


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def entries(path):
    return [
        (one.line, one.file, one.captions, one.focus) for one in read_caption_list(path).entries
    ]


def lines(*rows):
    return "\n".join(json.dumps(row) for row in rows)


def matched(tmp_path, content, *names, list_name="list.csv"):
    """The captions of each image, and the files of entries that name none."""
    found = read_caption_list(written(tmp_path, list_name, content))
    found = found.match(tmp_path / "pets", names)
    return [one and one.captions for one in found.entries], [one.file for one in found.unused]


# --- formats


CSV = 'file,caption,focus_x,focus_y\na.png,"a cat, a dog",0.25,1\n\nb.png,b,,\n'


@each(
    "content",
    [
        CSV,
        CSV.replace("\n", "\r\n"),
        b"\xef\xbb\xbf" + CSV.encode(),
        CSV.encode("utf-16"),
        CSV.replace("file,", " File , ").replace("caption,", "TEXT,", 1),
    ],
)
def test_csv_is_read(tmp_path, content):
    assert entries(written(tmp_path, "list.csv", content)) == [
        (2, "a.png", ("a cat, a dog",), (0.25, 1.0)),
        (4, "b.png", ("b",), None),
    ]


@each(
    ("name", "content", "expected"),
    [
        # Other separators, of which German lists have decimal commas.
        ("a.csv", "file;caption;focus_x;focus_y\na.png;x, y;0,25;0,5\n",
         [(2, "a.png", ("x, y",), (0.25, 0.5))]),
        ("a.csv", "file\tcaption\na.png\tx, y\n", [(2, "a.png", ("x, y",), None)]),
        # Numbered columns are several captions; lines within quotes keep the count.
        ("a.csv", "caption_10,file,caption_2,note\nten,a.png,two,n\n,b.png,,\n",
         [(2, "a.png", ("two", "ten"), None), (3, "b.png", ("",), None)]),
        ("a.csv", '\n\nfile,caption\na.png,"x\ny"\nb.png,z\n',
         [(4, "a.png", ("x y",), None), (6, "b.png", ("z",), None)]),
        ("list.jsonl",
         "\n" + lines(
             {"file": "a.png", "caption": ["x ", "  y\nz"], "focus": [0, 0.5]},
             {"file_name": "b.png", "text": "猫", "focus_x": 1, "focus_y": "0.5"},
             {"file": "c.png", "caption": None, "other": {}},
         ) + "\n",
         [(2, "a.png", ("x", "y z"), (0.0, 0.5)), (3, "b.png", ("猫",), (1.0, 0.5)),
          (4, "c.png", ("",), None)]),
    ],
)  # fmt: skip
def test_lists_are_read(tmp_path, name, content, expected):
    assert entries(written(tmp_path, name, content)) == expected


# --- faults


@each(
    ("name", "content", "reported"),
    [
        ("a.csv", "file,caption\na.png,x\nb.png,y, z\n", 'line 3: 3 columns, .* goes in "quotes"'),
        ("a.csv", 'file,caption\na.png,x\nb.png,"y\n', "line 3: .*CSV"),
        ("a.csv", "name,caption\na,b\n", 'line 1: no "file" column'),
        ("a.csv", "file,words\na,b\n", 'line 1: no "caption" column'),
        ("a.csv", "file,caption,caption\na,b,c\n", "line 1: two columns"),
        ("a.csv", "file,caption\n,b\n", 'line 2: "file" names no image'),
        ("a.csv", "file,caption\n", "names no image"),
        ("a.csv", "", "names no image"),
        ("a.csv", "file,caption,focus_x,focus_y\na,b,0.5,\n", '"focus_y" is missing'),
        ("a.csv", "file,caption,focus_x,focus_y\na,b,0.5,320\n", '"focus_y" is "320", not'),
        ("a.csv", "file,caption,focus_x,focus_y\na,b,nan,0\n", '"focus_x" is "nan", not'),
        ("a.jsonl", '{"file": "a", "caption": "b"}\n{"file":', "line 2: invalid JSON"),
        ("a.jsonl", "[" * 100_000, "line 1: invalid JSON"),
        ("a.jsonl", "[1]", "line 1: not a JSON object"),
        ("a.jsonl", '{"file": 3, "caption": "b"}', 'line 1: "file" names'),
        ("a.jsonl", '{"file": "a"}', 'line 1: there is no "caption"'),
        ("a.jsonl", '{"file": "a", "caption": [3]}', "line 1: .* neither text"),
        ("a.jsonl", '{"file": "a", "caption": "\\ud83d"}', "invalid character"),
        ("a.jsonl", '{"file": "a", "caption": "x", "focus": [1]}', '"focus" is not a list'),
        ("a.jsonl", '{"file": "a", "caption": "x", "focus": [true, 0]}', '"focus_x" is true'),
        ("a.json", "{}", r"\.csv, \.jsonl or \.txt"),
        ("a.csv", b"a\0b", "is not text"),
    ],
)
def test_faults_are_reported_with_their_line(tmp_path, name, content, reported):
    with pytest.raises(UserError, match=reported):
        read_caption_list(written(tmp_path, name, content))


def test_missing_list_is_reported(tmp_path):
    with pytest.raises(UserError, match="file not found"):
        read_caption_list(tmp_path / "a.csv")


# --- matching


def rows(*pairs):
    return "file,caption\n" + "".join(f"{file},{caption}\n" for file, caption in pairs)


@each(
    ("content", "names", "captions", "unused"),
    [
        # Images are named by the end of their path; letter case only decides between two.
        *[
            (rows((file, "x")), ("sub/a.png", "b.png"), ["x", None], [])
            for file in ("a.png", "sub/a.png", "pets/sub/a.png", r"pets\sub\a.png",
                         "./sub/A.PNG", "sub/a", "a.jpg")
        ],
        *[
            (rows((file, "x")), ("sub/a.png", "b.png"), [None, None], [file])
            for file in ("other/a.png", "c.png", "png", "aa.png", "a.v2", "cats/sub/a")
        ],
        (rows(("a.png", "x"), ("A.png", "y")), ("A.png", "a.png"), ["y", "x"], []),
        (rows(("u\u0308.png", "x")), ("\u00fc.png",), ["x"], []),
        # An image in the folder itself comes before one below, a full name before another ending.
        (rows(("a.png", "x"), ("sub/a.png", "y")), ("a.png", "sub/a.png"), ["x", "y"], []),
        (rows(("a.jpg", "x"), ("a.png", "y")), ("a.png",), ["y"], ["a.jpg"]),
        (rows(("a.jpg", "x"), ("a.png", "y")), ("a.png", "a.webp"), ["y", "x"], []),
    ],
)  # fmt: skip
def test_entries_are_matched_with_images(tmp_path, content, names, captions, unused):
    found = matched(tmp_path, content, *names)
    assert found == ([one and (one,) for one in captions], unused)


@each("file", ["a.png", "a"])
def test_name_of_two_images_is_refused(tmp_path, file):
    with pytest.raises(UserError, match=r'line 2: "a.*" may be "v/a\.png" or "w/a\.png"'):
        matched(tmp_path, f"file,caption\n{file},x\n", "v/a.png", "w/a.png")


def test_several_entries_of_an_image_are_its_captions(tmp_path):
    rows = "file,caption,focus_x,focus_y\na.png,x,,\na.png,,0.5,0.5\na.png,y,,\n"
    found = read_caption_list(written(tmp_path, "a.csv", rows)).match(tmp_path, ["a.png"])
    assert found.entries[0].captions == ("x", "y")
    assert found.entries[0].focus == (0.5, 0.5)


def test_two_points_of_an_image_are_refused(tmp_path):
    rows = "file,caption,focus_x,focus_y\na.png,x,0,0\na.png,y,1,1\n"
    with pytest.raises(UserError, match="lines 2 and 3"):
        matched(tmp_path, rows, "a.png")


# --- a caption a line


@each(
    ("text", "captions"),
    [
        ("x\n\ny", ["x", "", "y"]),
        ("x\r\n\r\ny\r\n", ["x", "", "y"]),
        ("x\n\n y \n\n\n", ["x", "", "y"]),
        ("x\n\n", ["x", ""]),  # the last images may be without a caption
    ],
)
def test_txt_is_in_the_order_of_the_images(tmp_path, text, captions):
    names = [f"{number}.png" for number in range(len(captions))]
    found = matched(tmp_path, text, *names, list_name="list.txt")
    assert found == ([(caption,) for caption in captions], [])


@each(("text", "count"), [("x", 1), ("x\ny\nz\n", 3)])
def test_txt_of_another_length_is_refused(tmp_path, text, count):
    with pytest.raises(UserError, match=f"has {count} lines for 2 images"):
        matched(tmp_path, text, "a.png", "b.png", list_name="list.txt")
