"""The look at files after a change: real threads, and a clock that is turned by hand."""

import time
from types import SimpleNamespace

import pytest

from ui.draft import PENDING, Draft
from ui.file_check import LOOK_AFTER_MS, FileCheck
from ui.jobs import Jobs

DEADLINE = 20.0


class Root:
    """The part of a Tk window that has something called later."""

    def __init__(self):
        self.waiting = {}
        self.made = 0

    def after(self, delay, call):
        assert delay == LOOK_AFTER_MS
        self.made += 1
        self.waiting[str(self.made)] = call
        return str(self.made)

    def after_cancel(self, name):
        del self.waiting[name]

    def let_time_pass(self):
        calls, self.waiting = list(self.waiting.values()), {}
        for call in calls:
            call()


@pytest.fixture
def window(home, project):
    draft, root, jobs = Draft(), Root(), Jobs()
    FileCheck(SimpleNamespace(draft=draft, root=root, kit=SimpleNamespace(jobs=jobs)))
    draft.load(project)
    return SimpleNamespace(draft=draft, root=root, jobs=jobs)


def look(window):
    window.root.let_time_pass()
    end = time.monotonic() + DEADLINE
    while window.draft.awaits_look:
        window.jobs.deliver()
        assert time.monotonic() < end
        time.sleep(0.005)


def test_good_files_are_looked_at_after_loading(window):
    assert window.draft.problems == [PENDING]
    look(window)
    assert window.draft.problems == []


@pytest.mark.parametrize("content", [None, b"cut"])
def test_a_missing_or_truncated_model_is_told_of_without_start(window, project, content):
    model = project.parent / "other.safetensors"
    if content is not None:
        model.write_bytes(content)
    window.draft.set("model.path", str(model))
    look(window)
    assert [problem.path for problem in window.draft.errors] == ["model.path"]


def test_an_empty_folder_of_pictures_is_told_of_without_start(window, tmp_path):
    (tmp_path / "empty").mkdir()
    window.draft.set("data.folder", str(tmp_path / "empty"))
    look(window)
    assert "is empty" in window.draft.problem("data.folder").what


def test_typing_a_path_looks_once(window):
    for length in range(1, 6):
        window.draft.set("model.path", "/else"[:length])
    assert len(window.root.waiting) == 1


def test_other_settings_have_nobody_look(window):
    look(window)
    window.draft.set("training.steps", 61)
    assert window.root.waiting == {}


def test_an_answer_that_comes_too_late_is_passed_over(window, project):
    window.draft.set("model.path", "/gone.safetensors")
    window.root.let_time_pass()
    window.draft.set("model.path", str(project.parent / "base.safetensors"))
    look(window)
    assert window.draft.problems == []


def test_a_home_that_is_nobodys_is_said_in_words(window):
    window.draft.set("model.path", "~nobody-of-this-name/model.safetensors")
    look(window)
    assert "no such user" in window.draft.problem("model.path").what
