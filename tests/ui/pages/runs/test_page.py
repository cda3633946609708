"""The page of runs in this process: what a person does while a thread still reads."""

import threading
from types import SimpleNamespace

import pytest

from onetrainer.run.run_folder import create_run
from tests.ui.pumping import pump_until
from tests.ui.xscreen import DEADLINE
from ui.background.image_cache import ImageCache
from ui.pages.runs import page as page_module
from ui.pages.runs.page import RunsPage

ACTIONS = ("attach", "load_file", "show_message", "start_blocked_reason")


def nothing(*_, **__):
    return ""


@pytest.fixture
def page(root, widgets, draft, tmp_path):
    """The page on the screen, with a run."""
    draft.set("output.folder", str(tmp_path / "runs"))
    create_run(tmp_path / "runs", name="paper", config={})
    state = SimpleNamespace(status="")
    context = SimpleNamespace(
        root=root,
        widgets=widgets,
        draft=draft,
        images=ImageCache(widgets.jobs),
        session=SimpleNamespace(generation=0, is_running=False, state=state, folder=None),
        act=SimpleNamespace(**dict.fromkeys(ACTIONS, nothing)),
    )
    made = RunsPage(context, root)
    made.outer.pack(fill="both", expand=True)
    made.refresh()
    deliver(root, widgets.jobs, lambda: made.rows)
    return made


def deliver(root, jobs, condition):
    def is_so():
        jobs.deliver()
        return condition()

    pump_until(root, is_so)


def test_a_star_stays_when_a_reading_from_before_it_ends_later(root, jobs, page, monkeypatch):
    is_read, is_starred = threading.Event(), threading.Event()

    def list_late(*arguments):
        rows = original(*arguments)
        is_read.set()
        assert is_starred.wait(DEADLINE)
        return rows

    original = page_module.list_runs
    monkeypatch.setattr(page_module, "list_runs", list_late)
    page.take_focus()
    assert is_read.wait(DEADLINE)
    row = page.rows[0]
    page.table.select(row)
    page._star()
    written = []
    jobs.run_in_order(nothing, written.append)  # after the star
    deliver(root, jobs, lambda: written)
    is_starred.set()
    deliver(root, jobs, lambda: not page._is_reading)
    assert page.rows[0].record.notes.is_starred
