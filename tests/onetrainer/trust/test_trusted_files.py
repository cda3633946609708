"""Trust in user-defined code: required before it runs, and again when it changes."""

import io
import sys
from multiprocessing import get_context

import pytest

from onetrainer.__main__ import main
from onetrainer.config.rewards.reward import Reward
from onetrainer.errors import EXIT_DONE, EXIT_USER, UserError
from onetrainer.metrics.guard import names_of
from onetrainer.run.user_folder import user_folder
from onetrainer.trust import trusted_files
from onetrainer.trust.function_file import absolute_spec, find_function
from onetrainer.trust.trusted_files import preview, problem, status, trust, trusted_function
from tests.each import each
from tests.runs import DEADLINE

CODE = "raise SystemExit('this file was run')\ndef score(pictures, prompts):\n    return 0\n"


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    for name in ("XDG_CONFIG_HOME", "APPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "settings"))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rewards.py"
    path.write_text(CODE)
    return path


def test_a_function_is_trusted_as_it_was_read_and_no_copy_of_it(file):
    spec, copy = f"{file}:score", file.with_name("copy.py")
    assert status(spec) == "unknown"
    found = problem(spec, "here")
    assert "not trusted yet" in found.what
    assert f'onetrainer trust "{spec}"' in found.remedy
    read = find_function(spec)
    file.write_text(CODE + "# later\n")
    trust(read)
    assert status(spec) == "changed"
    with pytest.raises(UserError, match="has changed since you trusted it"):
        trusted_function(spec)
    file.write_text(CODE)
    assert (status(spec), problem(spec, "here")) == ("trusted", None)
    function = trusted_function(spec)
    assert (function.file, function.name, function.contents) == (file, "score", (CODE.encode(),))
    copy.write_text(CODE)
    assert status(f"{copy}:score") == "unknown"
    trust(find_function(f"{copy}:score"))
    assert status(spec) == "trusted"


def _trust(spec, barrier):
    function = find_function(spec)
    barrier.wait(DEADLINE)
    trust(function)


def test_two_processes_that_trust_at_the_same_time_both_do(file):
    copies = [file.with_name(f"copy{number}.py") for number in range(6)]
    for copy in copies:
        copy.write_text(CODE)
    fork = get_context("fork")
    barrier = fork.Barrier(len(copies))
    processes = [fork.Process(target=_trust, args=(f"{copy}:score", barrier)) for copy in copies]
    for process in processes:
        process.start()
    for process in processes:
        process.join(DEADLINE)
    assert [status(f"{copy}:score") for copy in copies] == ["trusted"] * len(copies)


def test_the_terminal_trusts_what_it_was_given_and_asks_nobody_else(file, monkeypatch):
    spec = f"{file}:score"
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))  # no terminal
    assert main(["trust", spec]) == EXIT_USER
    assert status(spec) == "unknown"
    assert main(["trust", spec, "--yes"]) == EXIT_DONE
    assert status(spec) == "trusted"


def test_the_older_name_of_the_command_still_works(file):
    spec = f"{file}:score"
    assert main(["allow", spec, "--yes"]) == EXIT_DONE
    assert status(spec) == "trusted"


def test_one_file_is_one_file_however_it_is_written(file, monkeypatch):
    folder = file.parent / "sub"
    folder.mkdir()
    monkeypatch.chdir(folder)
    trust(find_function("../rewards.py:score"))
    assert status(f"{file}:score") == "trusted"
    for spec, absolute in (
        ("../rewards.py:score", f"{file}:score"),
        ("/b/a.py:f", "/b/a.py:f"),
        ("package.a:f", "package.a:f"),
        ("nonsense", "nonsense"),
    ):
        assert absolute_spec(spec, folder) == absolute


def test_a_damaged_file_of_trusted_digests_allows_nothing(file):
    user_folder().mkdir(parents=True)
    for damage in ("", "{", "[1, 2]", '{"a": 1}', "\0"):
        (user_folder() / trusted_files.FILE).write_text(damage)
        assert status(f"{file}:score") == "unknown"


@each(
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
def test_what_is_wrong_with_a_function_is_reported(file, monkeypatch, spec, words):
    file.with_name("broken.py").write_text("x = 1\ndef score(:\n")
    monkeypatch.chdir(file.parent)
    assert status(spec) == "missing"
    assert problem(spec, "objective.rewards.0.function").path == "objective.rewards.0.function"
    with pytest.raises(UserError, match=words):
        find_function(spec)


def test_modules_are_found_and_shown_with_their_packages_but_not_imported(tmp_path, monkeypatch):
    package = tmp_path / "own_package_for_rewards"
    package.mkdir()
    around, own = package / "__init__.py", package / "light.py"
    around.write_text("raise RuntimeError('imported')\n")
    own.write_text("if True:\n    from math import sqrt as score\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = find_function("own_package_for_rewards.light:score")
    assert found.files == (around, own)
    assert "own_package_for_rewards" not in sys.modules
    assert preview(found).splitlines() == [
        *(f"# {own}:", "   1  if True:", "   2      from math import sqrt as score"),
        "",
        *(f"# {around}:", "   1  raise RuntimeError('imported')"),
    ]
    trust(found)
    around.write_text("")  # it would run, too
    assert status("own_package_for_rewards.light:score") == "changed"


def test_the_preview_hides_nothing_from_who_reads_it(file):
    escape, turned = "\x1b[2K\x1b[1A", "\u202e"
    file.write_text(f"def score(p, q): return 0  # {escape}{turned}\n")
    shown = preview(find_function(f"{file}:score"))
    assert escape[0] not in shown
    assert turned not in shown
    # In UTF-7 "+AAo-" is the end of a line, and of a comment.
    file.write_text("# coding: utf-7\n# a comment+AAo-import os\ndef score(p, q): return 0\n")
    assert "   3  import os" in preview(find_function(f"{file}:score")).splitlines()


def test_rewards_of_a_variant_are_numbered_from_the_second():
    kinds = ("clip", "sharpness", "clip", "clip", "sharpness")
    assert names_of([Reward(reward=kind) for kind in kinds]) == (
        *("clip", "sharpness", "clip 2", "clip 3", "sharpness 2"),
    )
