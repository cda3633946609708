"""How a worker leaves: by a command or a signal, in every phase, and what it leaves behind."""

import os
import signal

import pytest

from modules.training import signals
from modules.training.inbox import Inbox
from onetrainer.run import client
from onetrainer.run.events import Checkpoint, Progress, Started, Stopped
from tests import runs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_workers")]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return runs.write_project(tmp_path_factory.mktemp("leaving"))


def reported(folder, kind):
    return [event for event in runs.events_of(folder) if isinstance(event, kind)]


def loading(folder, moment, at_a_moment, leave):
    """The exit code of a worker that never ends loading; leave: called once it loads."""
    (folder.path / "loading").unlink(missing_ok=True)

    def wait_and_leave(run):
        runs.wait_until((folder.path / "loading").exists)
        leave(run)

    return at_a_moment(moment, folder, then=wait_and_leave)


def stop(run):
    run.send("stop")


def terminate(run):
    os.kill(run.pid, signal.SIGTERM)


def test_a_worker_pauses_at_log_out_after_its_step_and_leaves_at_once_while_it_loads(
    config, at_a_moment
):
    folder = runs.new_run(config, sampling={"prompts": []})
    assert at_a_moment("log-out 1", folder) == 3
    assert reported(folder, Stopped) == [Stopped(2, "pause")]
    assert reported(folder, Checkpoint)[-1].step == 2
    assert not list(folder.output.iterdir())
    for moment, leave, reason in (
        ("load 0", stop, "stop"), ("import 0", stop, "stop"), ("load 0", terminate, "pause")
    ):  # fmt: skip
        assert loading(folder, moment, at_a_moment, leave) == 3
        run = client.attach(folder)
        assert run.poll().events[-1] == Stopped(2, reason)
        assert run.unexpected_exit() is None
        started = reported(folder, Started)[-1]
        assert (started.step, started.total_steps) == (2, 6)
        assert [event.step for event in reported(folder, Progress)] == [1, 2]


def test_a_discarded_run_ends_after_its_step_and_keeps_its_checkpoints(config, at_a_moment):
    folder = runs.new_run(config, sampling={"prompts": []}, output={"save_every": 2})
    assert at_a_moment("discard 2", folder) == 3
    assert reported(folder, Stopped) == [Stopped(3, "discard")]
    assert [step for step, _ in folder.complete_checkpoints()] == [2]
    assert not list(folder.output.iterdir())


def test_a_second_signal_ends_the_process_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(signals, "_ONE_REQUEST_SECONDS", 0.0)
    child = os.fork()
    if child == 0:
        inbox = Inbox(tmp_path / "commands.jsonl")
        signals.pause_at_signals(inbox)
        signal.raise_signal(signal.SIGHUP)
        if inbox.leaving == "pause":
            signal.raise_signal(signal.SIGTERM)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
