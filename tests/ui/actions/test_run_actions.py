"""Actions of a run, without a window: real threads, and a queue of the test's own."""

from types import SimpleNamespace

import pytest

from onetrainer.queue.queue import Queue
from tests.ui.pumping import deliver_until
from ui.actions import run_actions
from ui.actions.run_actions import RunActions
from ui.background.current_preview import CurrentPreview
from ui.background.threads import Jobs
from ui.model.draft import Draft


@pytest.fixture
def window(home, project, monkeypatch):
    shown, errors = [], []
    monkeypatch.setattr(run_actions, "report_failure", lambda _, error: errors.append(str(error)))
    draft, jobs = Draft(), Jobs()
    context = SimpleNamespace(
        draft=draft,
        root=SimpleNamespace(after=lambda delay, call: ""),
        widgets=SimpleNamespace(jobs=jobs),
        preview=CurrentPreview(draft, jobs, lambda *_: None),
        forecasts=SimpleNamespace(is_outdated=True),
        act=SimpleNamespace(
            refresh=lambda: None, show_page=shown.append, show_message=shown.append
        ),
    )
    context.draft.load(project)
    return SimpleNamespace(context=context, jobs=jobs, shown=shown, errors=errors)


def test_each_run_of_a_sweep_is_checked_and_none_is_added_unless_all_can_start(window):
    actions, config = RunActions(window.context, lambda: None), window.context.draft.config()
    actions._enqueue(["model.family=sd15,sdxl"], config)
    assert actions.is_checking
    deliver_until(window.jobs, lambda: window.errors or window.shown)
    assert Queue().read().entries == ()
    assert "family-sdxl: 1 problem" in window.errors[0]
    actions._enqueue(["training.seed=1,2"], config)
    deliver_until(window.jobs, lambda: window.shown)
    assert len(Queue().read().waiting) == 2
    said = ["queue", "2 runs were added to the page Queue."]
    assert (actions.is_checking, window.shown, len(window.errors)) == (False, said, 1)
