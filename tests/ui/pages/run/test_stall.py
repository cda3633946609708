"""What the page of the run and the status line say of a run that makes no steps."""

from types import SimpleNamespace

from onetrainer.run.events import Phase, Progress, Started
from onetrainer.run.run_folder import create_run
from ui.background.session import Session
from ui.pages.run.banner_message import message_of
from ui.pages.run.figures import activity
from ui.progress import stall
from ui.shell.footer import run_line


def test_a_stall_is_told_in_the_banner_the_figures_and_the_status_line_until_a_step(
    tmp_path, monkeypatch
):
    now = [0.0]
    monkeypatch.setattr(stall, "time", lambda: 1e9 + now[0])
    session = Session(clock=lambda: now[0])
    session.run = SimpleNamespace(folder=create_run(tmp_path, name="cats", config={}))
    session._is_finished = False  # a worker is running
    for event in (Started(1, 0, 100), Phase("training"), Progress(7, 100, 0, 0.1, 1e-4, 2.0, 9.0)):
        session.state.apply(event)
    context = SimpleNamespace(session=session)
    assert message_of(context) is None and run_line(session).endswith("9 s left")
    now[0] = 90.0
    message = message_of(context)
    assert message.title.startswith("No step since ") and message.has_log
    assert "A step takes 0.5 s otherwise; the last was 7." in message.text
    assert activity(session) == "Training · no step for 1 min 30 s"
    assert run_line(session).endswith("step 7 of 100  ·  no step for 1 min 30 s")
    now[0] = 95.0
    assert message_of(context) == message  # an open log below it stays open
    session._last_event_at = 94.0
    assert message_of(context) is None
