"""The session with real processes of the fake worker, and no window."""

import os
import signal
import subprocess
import time

import pytest

from onetrainer.presets.presets import load_document, resolve
from onetrainer.run import client
from tests.ui.window_server import ServedWorkers
from tests.ui.xscreen import DEADLINE
from ui.background.session import SILENCE, Session


@pytest.fixture
def config(home, long_project, monkeypatch, window_server):
    """Of a run that does not end by itself, but for the sixty steps of the mode "ok"."""
    monkeypatch.setattr(client, "WORKER", "tests.ui.fake_worker")
    monkeypatch.setattr(client, "subprocess", ServedWorkers(window_server))
    return resolve(load_document(long_project), source="")


@pytest.fixture
def session():
    made = Session()
    yield made
    if made.run is not None:
        made.kill()
        made.run.wait(DEADLINE)


def until(session, condition):
    end = time.monotonic() + DEADLINE
    while not condition():
        session.poll()
        assert time.monotonic() < end, session.state
        time.sleep(0.01)


def start(session, config, monkeypatch, mode):
    monkeypatch.setenv("FAKE_WORKER", mode)
    session.start(config)


def test_a_run_is_followed_to_its_end(session, config, monkeypatch):
    start(session, config, monkeypatch, "ok")
    assert session.is_running
    until(session, lambda: not session.has_worker)
    assert session.state.status == "finished"
    assert len(session.state.curve) == 60
    assert len(session.state.samples) == 3 * 7
    assert session.state.unexpected_exit is None


def test_a_paused_run_goes_on_where_it_ended(session, config, monkeypatch):
    start(session, config, monkeypatch, "slow")
    until(session, lambda: session.state.step >= 3)
    session.send("pause")
    assert session.pending_command.name == "pause"
    until(session, lambda: not session.has_worker)
    paused_at = session.state.step
    assert session.state.status == "paused"
    monkeypatch.setenv("FAKE_WORKER", "ok")
    session.resume()
    assert session.is_running
    until(session, lambda: not session.has_worker)
    assert session.state.status == "finished"
    steps = [point.step for point in session.state.curve.points()]
    assert steps == list(range(1, max(60, paused_at) + 1))
    assert session.state.started.step == paused_at


def test_a_resumed_run_keeps_its_state_until_the_new_worker_has_reported_all(
    session, config, monkeypatch
):
    start(session, config, monkeypatch, "slow")
    until(session, lambda: session.state.step >= 5)
    session.send("pause")
    until(session, lambda: not session.has_worker)
    step, samples = session.state.step, len(session.state.samples)
    session.resume()

    def has_reported():
        if session.state.started is None:
            assert (session.state.step, len(session.state.curve)) == (step, step)
            assert len(session.state.samples) == samples
            assert session.state.status == "starting"
        return session.state.started is not None

    until(session, has_reported)
    assert len(session.state.curve) >= step
    assert session.state.step >= step

    def goes_on():
        # The end of the worker before is no end of the resumed run.
        assert session.state.status == "running"
        return session.state.step >= step + 2

    until(session, goes_on)


@pytest.mark.parametrize(
    ("sent", "name"), [(signal.SIGSEGV, "SIGSEGV"), (signal.SIGKILL, "memory")]
)
def test_a_worker_that_is_killed_is_reported(session, config, monkeypatch, sent, name):
    start(session, config, monkeypatch, "slow")
    until(session, lambda: session.state.step >= 2)
    os.kill(session.state.started.pid, sent)
    until(session, lambda: not session.has_worker)
    assert session.state.status == "died"
    assert name in session.state.unexpected_exit.what
    assert not session.state.unexpected_exit.was_ended_here
    assert "fake worker: loading" in session.state.unexpected_exit.log


def test_a_worker_that_dies_before_it_goes_on_is_reported(session, config, monkeypatch):
    start(session, config, monkeypatch, "slow")
    until(session, lambda: session.state.step >= 2)
    session.send("pause")
    until(session, lambda: not session.has_worker)
    monkeypatch.setattr(client, "subprocess", subprocess)
    monkeypatch.setattr(client, "WORKER", "no_such_worker")
    session.resume()
    until(session, lambda: not session.has_worker)
    assert session.state.status == "died"


def test_killing_is_offered_when_a_worker_that_is_to_end_is_silent(config, monkeypatch):
    now = [0.0]
    session = Session(clock=lambda: now[0])
    start(session, config, monkeypatch, "hang")
    until(session, lambda: session.state.step >= 1)
    session.send("stop")
    assert not session.can_kill
    now[0] += SILENCE
    assert session.can_kill
    session.kill()
    until(session, lambda: not session.has_worker)
    assert session.state.status == "died"
    assert session.state.unexpected_exit.was_ended_here


def test_a_quiet_worker_is_noticed(config, monkeypatch):
    now = [0.0]
    session = Session(clock=lambda: now[0])
    start(session, config, monkeypatch, "slow")
    until(session, lambda: session.state.step >= 1)
    assert session.silent_seconds == 0
    assert session.stall is None
    now[0] += 100
    assert session.silent_seconds >= 100
    assert session.stall.text == "no step for 1 min 40 s"
    session.send("stop")
    assert session.stall is None  # it is said to be stopping
    session.kill()
    until(session, lambda: not session.has_worker)
