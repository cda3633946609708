"""Trust in user-defined code: required before it runs, and again when it changes."""

import io
import sys

import pytest

from onetrainer.__main__ import main
from onetrainer.config.rewards.reward import Reward
from onetrainer.errors import EXIT_DONE, EXIT_USER, UserError
from onetrainer.metrics.guard import names_of
from onetrainer.trust import trusted_files
from onetrainer.trust.function_file import absolute_spec, find_function
from tests.each import each

CODE = "raise SystemExit('this file was run')\ndef score(pictures, prompts):\n    return 0\n"


@pytest.fixture
def store(tmp_path):
    """Return the path of the trusted digests; its folder does not exist yet."""
    return tmp_path / "settings" / "allowed.json"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rewards.py"
    path.write_text(CODE)
    return path


def test_a_function_is_allowed_only_after_it_was_said(file, store):
    spec = f"{file}:score"
    assert trusted_files.status(spec, store=store) == "unknown"
    problem = trusted_files.problem(spec, "here", store=store)
    assert "not trusted yet" in problem.what
    assert f'onetrainer allow "{file}:score"' in problem.remedy
    trusted_files.trust_function(spec, store=store)
    assert trusted_files.status(spec, store=store) == "allowed"
    assert trusted_files.problem(spec, "objective.rewards.0.function", store=store) is None
    function, contents = trusted_files.trusted_code(spec, store=store)
    assert (function.file, function.name, contents) == (file, "score", (CODE.encode(),))


def test_a_changed_file_asks_again(file, store):
    trusted_files.trust_function(f"{file}:score", store=store)
    file.write_text(CODE + "# later\n")
    assert trusted_files.status(f"{file}:score", store=store) == "changed"
    with pytest.raises(UserError, match="has changed since you trusted it"):
        trusted_files.trusted_code(f"{file}:score", store=store)
    file.write_text(CODE)
    assert trusted_files.status(f"{file}:score", store=store) == "allowed"


def test_trust_in_one_file_is_none_to_a_copy_of_it(file, store):
    trusted_files.trust_function(f"{file}:score", store=store)
    copy = file.with_name("copy.py")
    copy.write_text(CODE)
    assert trusted_files.status(f"{copy}:score", store=store) == "unknown"
    trusted_files.trust_function(f"{copy}:score", store=store)
    assert trusted_files.status(f"{file}:score", store=store) == "allowed"


def test_the_terminal_allows_what_it_was_given_and_asks_nobody_else(file, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("APPDATA", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    spec = f"{file}:score"
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))  # no terminal
    assert main(["allow", spec]) == EXIT_USER
    assert trusted_files.status(spec) == "unknown"
    assert main(["allow", spec, "--yes"]) == EXIT_DONE
    assert trusted_files.status(spec) == "allowed"


def test_only_what_was_seen_is_allowed(file, store):
    spec = f"{file}:score"
    seen = trusted_files.check_trust(spec, store=store).digest
    file.write_text(CODE + "# later\n")
    assert not trusted_files.trust_function(spec, expected_digest=seen, store=store)
    assert trusted_files.status(spec, store=store) == "unknown"
    digest = trusted_files.check_trust(spec, store=store).digest
    assert trusted_files.trust_function(spec, expected_digest=digest, store=store)
    assert trusted_files.status(spec, store=store) == "allowed"


def test_one_file_is_one_file_however_it_is_written(file, store, monkeypatch):
    (file.parent / "sub").mkdir()
    monkeypatch.chdir(file.parent / "sub")
    trusted_files.trust_function("../rewards.py:score", store=store)
    assert trusted_files.status(f"{file}:score", store=store) == "allowed"
    assert absolute_spec("../rewards.py:score", file.parent / "sub") == f"{file}:score"


@each("damage", ["", "{", "[1, 2]", '{"a": 1}', "\0"])
def test_a_damaged_file_of_trusted_digests_allows_nothing(file, store, damage):
    store.parent.mkdir(exist_ok=True)
    store.write_text(damage)
    assert trusted_files.status(f"{file}:score", store=store) == "unknown"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("", "does not name a function"),
        ("rewards.py", "does not name a function"),
        ("rewards.py:", "does not name a function"),
        ("rewards.py:a b", "does not name a function"),
        ("missing.py:score", "there is no such file"),
        ("~nobody-of-this-name/own.py:score", "there is no such user"),
        ("rewards.py:other", 'no function "other"'),
        ("broken.py:score", "broken.py, line 2: this is not valid Python"),
        ("no_such_module_anywhere:score", "no such module"),
        ("json.no_such_module:score", "no such module"),
        ("json..decoder:score", "no such module"),
        ("math:sqrt", r"not Python source|no such module"),
    ],
)
def test_what_is_wrong_with_a_function_is_reported(file, store, monkeypatch, spec, words):
    file.with_name("broken.py").write_text("x = 1\ndef score(:\n")
    monkeypatch.chdir(file.parent)
    problem = trusted_files.problem(spec, "objective.rewards.0.function", store=store)
    assert trusted_files.status(spec, store=store) == "missing"
    assert problem.path == "objective.rewards.0.function"
    with pytest.raises(UserError, match=words):
        find_function(spec)


def test_modules_are_found_without_being_imported(tmp_path, store, monkeypatch):
    package = tmp_path / "own_package_for_rewards"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (package / "light.py").write_text("if True:\n    from math import sqrt as score\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = "own_package_for_rewards.light:score"
    found = find_function(spec)
    assert found.files == (package / "__init__.py", package / "light.py")
    assert "own_package_for_rewards" not in sys.modules
    trusted_files.trust_function(spec, store=store)
    (package / "__init__.py").write_text("")  # it would run, too
    assert trusted_files.status(spec, store=store) == "changed"


def test_relative_files_are_made_absolute_and_modules_left_alone(tmp_path):
    assert absolute_spec("a.py:f", tmp_path) == f"{tmp_path / 'a.py'}:f"
    assert absolute_spec("/b/a.py:f", tmp_path) == "/b/a.py:f"
    assert absolute_spec("package.a:f", tmp_path) == "package.a:f"
    assert absolute_spec("nonsense", tmp_path) == "nonsense"


def test_the_preview_shows_the_first_lines_and_how_many_are_left(file):
    file.write_text("def score(p, q):\n" + "    # a line\n" * 29 + "    return 0\n")
    assert trusted_files.preview(f"{file}:score", most=3).splitlines() == [
        "def score(p, q):",
        *2 * ["    # a line"],
        "… 28 more lines",
    ]


def test_the_preview_hides_nothing_from_who_reads_it(file):
    escape, turned = "\x1b[2K\x1b[1A", "\u202e"
    file.write_text(f"def score(p, q): return 0  # {escape}{turned}\n")
    shown = trusted_files.preview(f"{file}:score")
    assert escape[0] not in shown
    assert turned not in shown
    # In UTF-7 "+AAo-" is the end of a line, and of a comment.
    file.write_text("# coding: utf-7\n# a comment+AAo-import os\ndef score(p, q): return 0\n")
    assert "import os" in trusted_files.preview(f"{file}:score").splitlines()


def test_the_preview_shows_the_packages_around_a_module(tmp_path, monkeypatch):
    package = tmp_path / "shown_package_for_rewards"
    package.mkdir()
    (package / "__init__.py").write_text("around = 1\n")
    (package / "light.py").write_text("def score(p, q): return 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert trusted_files.preview("shown_package_for_rewards.light:score").splitlines() == [
        f"# {package / 'light.py'}:",
        "def score(p, q): return 0",
        f"# {package / '__init__.py'}:",
        "around = 1",
    ]


def test_rewards_of_a_variant_are_numbered_from_the_second():
    kinds = ("clip", "sharpness", "clip", "clip", "sharpness")
    assert names_of([Reward(reward=kind) for kind in kinds]) == (
        *("clip", "sharpness", "clip 2", "clip 3", "sharpness 2"),
    )
