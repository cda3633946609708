"""Questions before a run ends say what is happening, and what each answer loses."""

from types import SimpleNamespace

import pytest

from onetrainer.run.run_folder import create_run
from tests.ui.pumping import once_asked
from ui.actions.closing import Closing
from ui.dialogs import stop_dialogs
from ui.dialogs.stop_dialogs import ask_before_discard, ask_to_end


@pytest.fixture
def asked(monkeypatch):
    """The texts of questions and the answers offered; each is answered with the first one."""
    asked = []

    def ask(_context, title, text, choices, **_):
        asked.append((title, text, [choice.label for choice in choices]))
        return choices[0].answer

    monkeypatch.setattr(stop_dialogs, "ask", ask)
    return asked


@pytest.fixture
def running(tmp_path):
    """A context whose run has made twenty steps, none of them saved."""
    folder = create_run(tmp_path, name="run", config={})
    session = SimpleNamespace(folder=folder, state=SimpleNamespace(step=20), pending_command=None)
    return SimpleNamespace(session=session)


def test_a_run_that_saves_already_can_go_on_doing_so(running, asked):
    assert ask_before_discard(running) == "stop"
    running.session.pending_command = SimpleNamespace(name="stop")
    assert ask_before_discard(running) == ""
    (_, _, before), (_, text, during) = asked
    assert before == ["Stop and save", "Stop without saving", "Cancel"]
    assert during == ["Keep waiting", "Stop without saving"]
    assert "stopping already" in text
    assert "all training so far is lost" in text


def test_each_way_to_end_a_stopping_run_is_explained(running, asked):
    for name, labels in (
        ("stop", ["Keep waiting", "Stop without saving", "End the process"]),
        ("discard", ["Keep waiting", "End the process"]),
    ):
        running.session.pending_command = SimpleNamespace(name=name)
        assert ask_to_end(running) == ""
        _, text, offered = asked[-1]
        assert offered == labels
        for label in labels[1:]:
            assert f"“{label}”" in text
        assert "ll training so far is lost" in text


def ask_to_close(context, *, work=""):
    """Closes the window; gives what is said where it stays open. work: Of a page, in a run."""
    said, closed, session = [], [], context.session
    context.act.commit = lambda: True
    context.act.working = lambda: work if session.is_running else ""
    context.act.show_message = said.append
    Closing(context, lambda: closed.append(True)).ask()
    assert "ended meanwhile" in said[0]
    return "closed" if closed else ""


def ask_to_end_work(context):
    return ask_to_close(context, work="Captions are being written.")


@pytest.mark.parametrize(
    "question", [ask_before_discard, ask_to_end, ask_to_close, ask_to_end_work]
)
def test_a_question_about_a_run_that_has_ended_meanwhile_closes(root, context, running, question):
    session = context.session = running.session
    session.pending_command, session.is_running = SimpleNamespace(name="stop"), True
    seen = []

    def end_the_run():
        seen.append(bool(root.tk.call("grab", "current", root)))
        session.is_running = False

    once_asked(root, end_the_run)
    assert question(context) == ""
    assert seen == [True]
    assert not root.tk.call("grab", "current", root)
