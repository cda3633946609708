"""Config files that are damaged, enormous or made to take long: a message with the line."""

import json
import re

import pytest

from onetrainer.errors import UserError
from onetrainer.json_file import MAX_BYTES, MAX_DEPTH, lines_of_keys, parse, read_json
from onetrainer.presets.lines import with_lines
from onetrainer.presets.presets import load, resolve
from tests.each import each


@each(
    ("text", "words"),
    [
        ('{\n"a": 1,\n"b": {"a": 2},\n"a": 3}', 'line 4: "a" occurs twice, first in line 2'),
        ('{"a": [\n{"é": 1,\n"\\u00e9": 2}]}', 'line 3: "é" occurs twice, first in line 2'),
        ('{\n"a": ' + "9" * 5000 + "}", "line 2: a number of more than 4300 digits"),
        ("9" * 5000 + ", ]}", "line 1: a number of more than 4300 digits"),
        ('{\n"a": 1,\n}', "line 3, column 1"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "more than 50 levels deep"),
        ("[" * 100_000, "more than 50 levels deep"),
    ],
)
def test_invalid_json_is_refused_with_its_line(text, words):
    with pytest.raises(UserError, match=re.escape(words)):
        parse(text, source="x.json")


def test_duplicates_among_many_keys_are_found_as_fast_as_the_keys_are_read():
    keys = [f'"{number}":0' for number in range(40_000)]
    with pytest.raises(UserError, match='"39999" occurs twice'):  # was quadratic
        parse("{" + ",".join([*keys, keys[-1]]) + "}", source="x.json")


def test_a_file_that_is_no_config_is_refused_by_its_size_also_if_it_has_none(tmp_path):
    path = tmp_path / "large.json"
    path.write_bytes(b'{"a": "' + b"x" * MAX_BYTES + b'"}')
    for large in (path, "/dev/zero"):
        with pytest.raises(UserError, match="larger than 4 MiB"):
            read_json(tmp_path / large)


def test_a_web_page_that_was_saved_as_a_preset_is_called_one(tmp_path):
    path = tmp_path / "lora.json"
    for text in ("<!DOCTYPE html>\n<html>", "\ufeff\n <html lang=en>"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match="this is a web page, not a preset"):
            read_json(path)


def test_lines_are_those_of_every_key_and_entry():
    document = {"a": {"b": [1, "x, ]", {"c": None}], "d": {}}, 'e\\"': [[], [True]]}
    text = json.dumps(document, indent=1)
    found = {".".join(map(str, path)): line for path, line in lines_of_keys(text)}
    lines = text.splitlines()
    keys = [
        "a",
        "a.b",
        "a.b.0",
        "a.b.1",
        "a.b.2",
        "a.b.2.c",
        "a.d",
        'e\\"',
        *['e\\".0', 'e\\".1', 'e\\".1.0'],
    ]
    assert list(found) == keys
    for path, line in found.items():
        key = path.rpartition(".")[2]
        assert key.isdecimal() or json.dumps(key) + ":" in lines[line - 1]
    assert [lines[found[path] - 1].strip() for path in ("a.b.1", "a.b.2")] == ['"x, ]",', "{"]


def test_problems_have_the_line_of_what_the_file_says_and_of_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    path = tmp_path / "x.json"
    path.write_text(
        '{\n"training": {\n"steps": 0,\n"sed": 1},\n"sampling": {"prompts": [\n{},\n{"width": 0}]}}'
    )
    document = load(str(path), ["training.steps=-1", "optimizer.lr=-1"])
    with pytest.raises(UserError) as caught:
        resolve(document, source=str(path))
    found = {p.path: p.line for p in with_lines(caught.value.problems, document, source=str(path))}
    assert found == {
        "training.steps": 0,  # overridden
        "training.sed": 4,
        "optimizer.lr": 0,
        "sampling.prompts.1.width": 7,
    }


def test_of_very_many_problems_the_first_are_described(tmp_path):
    with pytest.raises(UserError, match="900 more problems") as caught:
        resolve({f"key{number}": 1 for number in range(1000)}, source="")
    assert len(caught.value.problems) == 101
