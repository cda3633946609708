"""How a worker leaves: by a command or a signal, in every phase, and what it leaves behind."""

import hashlib
import os
import signal
from contextlib import closing
from threading import Event

import pytest

from modules.training import signals
from modules.training.inbox import Inbox
from onetrainer.errors import EXIT_USER
from onetrainer.run import client
from onetrainer.run.commands import encode_command
from onetrainer.run.events import Checkpoint, Progress, Started, Stopped
from onetrainer.run.failures import exit_failure
from tests import runs
from tests.forked import Forked

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_workers")]


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
        ("load 0", stop, "stop"), ("import 0", stop, "stop"), ("load 0", terminate, "pause"),
        ("verify 0", stop, "stop"), ("verify 0", terminate, "pause"),
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


def test_signals_are_obeyed_while_a_library_holds_the_main_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(signals, "_ONE_REQUEST_SECONDS", 0.0)
    ready, paused = tmp_path / "ready", tmp_path / "paused"

    def main(_):
        inbox = Inbox(tmp_path / "commands.jsonl", leave=Event, report=lambda _: paused.touch())
        with signals.pausing_at_signals(inbox), inbox.while_loading():
            ready.touch()
            hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # for minutes, without Python
        return 0

    with (tmp_path / "log").open("wb") as log:
        worker = Forked(main, [], log)
    try:
        runs.wait_until(ready.exists)
        worker.send_signal(signal.SIGHUP)
        runs.wait_until(paused.exists)
        assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(runs.DEADLINE) == 128 + signal.SIGTERM
    finally:
        worker.kill()
        worker.wait()
    assert exit_failure(128 + signal.SIGTERM) == exit_failure(-signal.SIGTERM)


def test_signals_ignored_stay_ignored_and_handlers_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(signals, "_ONE_REQUEST_SECONDS", runs.DEADLINE)
    with closing(Inbox(tmp_path / "commands.jsonl")) as inbox:
        terminate = signal.getsignal(signal.SIGTERM)
        hang_up = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            with signals.pausing_at_signals(inbox):
                signal.raise_signal(signal.SIGHUP)
                signal.raise_signal(signal.SIGTERM)
                signal.raise_signal(signal.SIGTERM)  # soon after: the same request
                runs.wait_until(inbox.is_leaving)
                assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is terminate
            assert signal.set_wakeup_fd(-1) == -1
        finally:
            signal.signal(signal.SIGHUP, hang_up)


def test_commands_are_read_after_another_start_has_emptied_their_file(tmp_path):
    path = tmp_path / "commands.jsonl"
    path.write_text(encode_command("sample") + encode_command("save"))
    with closing(Inbox(path)) as inbox:
        runs.wait_until(lambda: inbox.has("save"))
        path.write_text("")
        path.write_text(encode_command("stop"))
        runs.wait_until(inbox.is_leaving)


def test_a_worker_that_cannot_report_its_end_is_quoted_from_its_log():
    said = "/disk/run/events.jsonl: cannot write here (no space left on device)."
    assert exit_failure(EXIT_USER, said=said) == ("disk full", said)
    assert exit_failure(EXIT_USER, said="0 bytes free. Free some space.")[0] == "disk full"
    assert exit_failure(EXIT_USER, said="Something else.") == ("silent", "Something else.")
    assert exit_failure(7, said=said)[0] == exit_failure(EXIT_USER)[0] == "silent"
