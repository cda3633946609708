"""The check of files after a change: real threads, and a clock that is turned by hand."""

import threading
import time
from types import SimpleNamespace

import pytest

from onetrainer.errors import Fix
from tests.ui.project import MARKERS, PARTS, SDXL_PARTS, errors_of, write_model
from tests.ui.pumping import deliver_until
from tests.ui.xscreen import DEADLINE
from ui.actions import file_check
from ui.actions.file_check import CHECK_AFTER_MS, FileCheck
from ui.background.current_preview import CurrentPreview
from ui.background.threads import Jobs
from ui.model.draft import Draft


class Root:
    """The part of a Tk window that has something called later."""

    def __init__(self):
        self.waiting = {}
        self.made = 0

    def after(self, delay, call):
        assert delay == CHECK_AFTER_MS
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
    preview = CurrentPreview(draft, jobs, lambda *_: None)
    made = {"draft": draft, "root": root, "preview": preview}
    files = FileCheck(SimpleNamespace(**made, widgets=SimpleNamespace(jobs=jobs)))
    draft.load(project)
    return SimpleNamespace(**made, jobs=jobs, files=files)


def check_files(window):
    window.root.let_time_pass()
    end = time.monotonic() + DEADLINE
    while window.draft.needs_file_check:
        window.jobs.deliver()
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("content", [None, b"cut"])
def test_a_missing_or_truncated_model_is_reported_without_start(window, project, content):
    model = project.parent / "other.safetensors"
    if content is not None:
        model.write_bytes(content)
    window.draft.set("model.path", str(model))
    check_files(window)
    assert [problem.path for problem in errors_of(window.draft)] == ["model.path"]


def test_a_model_that_arrives_later_is_found_and_nothing_is_told_again(window, tmp_path):
    late = tmp_path / "late.safetensors"
    window.draft.set("model.path", str(late))
    check_files(window)
    assert errors_of(window.draft)
    told = []
    window.draft.listen(lambda: told.append(errors_of(window.draft)))
    window.files.look_again()
    write_model(tmp_path / "arriving").rename(late)  # whole, as the check may be reading
    window.files.look_again()
    deliver_until(window.jobs, lambda: told)
    assert told == [[]]


def test_a_model_of_another_family_can_be_put_right_and_is_not_by_itself(window, tmp_path):
    window.draft.set("model.path", str(write_model(tmp_path / "xl.safetensors", SDXL_PARTS)))
    check_files(window)
    problem = window.draft.problem("model.family")
    assert problem.fix == Fix("model.family", "sdxl")
    assert window.draft.value("model.family") == "sd15"
    window.draft.set(problem.fix.path, problem.fix.value)
    assert window.draft.problem("model.family") is None
    check_files(window)
    assert errors_of(window.draft) == []


@pytest.mark.parametrize(
    ("path", "value", "fix"),
    [
        ("model.prediction", "epsilon", "v_prediction"),
        ("model.zero_terminal_snr", "off", "auto"),
    ],
)
def test_what_the_model_says_otherwise_can_be_left_to_it(window, tmp_path, path, value, fix):
    marked = write_model(tmp_path / "v.safetensors", {**PARTS, **MARKERS})
    window.draft.set("model.path", str(marked))
    window.draft.set(path, value)
    check_files(window)
    assert window.draft.problem(path).fix == Fix(path, fix)
    window.draft.set(path, fix)
    check_files(window)
    assert window.draft.problems == []


def test_a_name_of_the_hub_is_searched_on_this_computer_only(window, monkeypatch):
    monkeypatch.setattr("onetrainer.checks.preflight.cached_folder", lambda name: None)
    window.draft.set("model.path", "stabilityai/sdxl-base-1.0")
    check_files(window)
    assert errors_of(window.draft) == []
    assert window.draft.value("model.path") == "stabilityai/sdxl-base-1.0"
    window.draft.set("model.offline", True)
    check_files(window)
    assert "stabilityai/sdxl-base-1.0" in window.draft.problem("model.path").what


def test_typing_a_path_checks_files_once(window):
    check_files(window)  # the first check waits for the window, and not for a pause
    for length in range(1, 6):
        window.draft.set("model.path", "/else"[:length])
    assert len(window.root.waiting) == 1


def test_an_answer_that_comes_too_late_is_passed_over(window, project):
    window.draft.set("model.path", "/gone.safetensors")
    window.root.let_time_pass()
    window.draft.set("model.path", str(project.parent / "base.safetensors"))
    check_files(window)
    assert window.draft.problems == []


def test_a_home_that_is_nobodys_is_reported(window):
    window.draft.set("model.path", "~nobody-of-this-name/model.safetensors")
    check_files(window)
    assert "no such user" in window.draft.problem("model.path").what


def test_one_look_at_the_files_follows_all_that_were_asked_for_during_another(window, monkeypatch):
    check_files(window)
    gate, looks = threading.Event(), []

    def look(config):
        looks.append(gate.wait(DEADLINE))
        return check(config)

    check = file_check.check_files
    monkeypatch.setattr(file_check, "check_files", look)
    for _ in range(3):
        window.files.look_again()
    gate.set()
    deliver_until(window.jobs, lambda: not window.files._is_running)
    assert looks == [True, True]


def test_an_image_that_is_found_damaged_by_decoding_is_reported_at_its_folder_too(
    window, project, monkeypatch
):
    monkeypatch.setattr("onetrainer.images.header.SETTLED_NS", 0)
    cut = project.parent / "pictures" / "paper-04.png"
    cut.write_bytes(cut.read_bytes()[:-40])

    def left_out():
        return [one.what for one in window.draft.problems if one.path == "data.folder"]

    check_files(window)
    assert left_out() == []  # its header is sound
    window.preview.query.start()
    deliver_until(window.jobs, left_out)
    skipped = window.preview.query.answer.preview.skipped
    assert [
        f"1 image cannot be used: {each.name} ({each.reason})" for each in skipped
    ] == left_out()
