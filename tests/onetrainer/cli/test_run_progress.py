"""`onetrainer train` and `resume` as a person meets them: output, signals, exit codes."""

import io
import signal
from pathlib import Path

import pytest

from onetrainer.__main__ import main
from onetrainer.checks import preflight
from onetrainer.cli import run_progress
from onetrainer.cli.run_progress import follow
from onetrainer.run import client
from onetrainer.run.client import Run
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import (
    Evaluated,
    Finished,
    Progress,
    Rewarded,
    Started,
    Stopped,
    Validated,
    Warned,
)
from onetrainer.run.run_folder import RunFolder, create_run

DEADLINE = 60


def scripted(folder, *events):
    writer = EventWriter(folder.events)
    for event in events:
        writer.write(event)
    writer.close()


class ScriptedRun(Run):
    """A run whose worker is a generator of events, which it writes one per poll."""

    pid = 7
    exit_code = 0

    def __init__(self, folder, script):
        super().__init__(folder)
        self._script, self._alive = script, True

    @property
    def is_alive(self):
        return self._alive

    def poll(self):
        event = next(self._script, None)
        self._alive = event is not None
        if event is not None:
            scripted(self.folder, event)
        return super().poll()

    def kill(self):
        self._alive = False


def progress(step, total):
    return Progress(step, total, 0, 0.5, 1e-4)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(run_progress, "sleep", lambda _seconds: None)
    return create_run(tmp_path, name="run", config={})


def shown(folder, *events):
    """What the terminal shows of a worker that writes these events and ends."""
    out = io.StringIO()
    assert follow(ScriptedRun(folder, iter([Started(7, 0, 2), *events])), out=out) == 0
    return out.getvalue().splitlines()


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Runs train or resume with the workers of these scripts, one after the other."""
    handlers = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(run_progress, "sleep", lambda _seconds: None)
    monkeypatch.setattr(preflight, "require_startable", lambda _problems, **_named: [])
    config = tmp_path / "config.json"
    config.write_text("{}")

    def run(*arguments, script):
        out = io.StringIO()
        monkeypatch.setitem(follow.__kwdefaults__, "out", out)

        def start(folder):
            for path in (folder.events, folder.commands):  # a new worker replaces them
                path.unlink(missing_ok=True)
            return ScriptedRun(folder, script(folder))

        monkeypatch.setattr(client, "start", start)
        code = main([str(config) if part == "CONFIG" else str(part) for part in arguments])
        return code, out.getvalue()

    yield run
    for name, handler in handlers.items():
        signal.signal(name, handler)


def interrupted(folder, *, in_step=True):
    """A worker that obeys; the interrupt comes in its second step."""
    yield Started(7, 0, 400)
    yield progress(1, 400)
    if in_step:
        signal.raise_signal(signal.SIGINT)
    yield progress(2, 400)
    while not folder.commands.exists():
        yield progress(2, 400)
    assert '"stop"' in folder.commands.read_text()
    yield Stopped(2, "stop")


def interrupted_at_start(folder):
    """The same, but the interrupt comes before anybody follows the run."""
    signal.raise_signal(signal.SIGTERM)
    return interrupted(folder, in_step=False)


@pytest.mark.parametrize("script", [interrupted, interrupted_at_start])
def test_an_interrupt_stops_the_run_which_resume_continues(train, tmp_path, script):
    folder = RunFolder(tmp_path / "run")
    code, output = train("train", "CONFIG", "--run-folder", folder.path, script=script)
    assert code == 3
    assert "Stopped after step 2." in output
    assert f"To continue: onetrainer resume {folder.path}" in output

    def resumed(step):
        return lambda _run: iter([Started(7, step, 4), Finished(4, ["output/a.safetensors"])])

    for step, expected in ((2, "continues after step 2"), (4, "already done all 4 steps")):
        code, output = train("resume", folder.path, script=resumed(step))
        assert code == 0
        assert expected in output
        assert "Stopped" not in output
        assert output.count("Done:") == 1
        assert output.splitlines()[-1].startswith("File: ")


def test_a_second_interrupt_kills_the_run(train, tmp_path):
    def script(_folder):
        yield Started(7, 0, 400)
        signal.raise_signal(signal.SIGINT)
        yield progress(1, 400)
        signal.raise_signal(signal.SIGINT)
        while True:
            yield progress(2, 400)

    code, output = train("train", "CONFIG", "--run-folder", tmp_path / "run", script=script)
    assert code == 3
    assert output.splitlines()[-1].startswith("Killed.")


def test_a_worker_process_is_followed_and_not_reached_by_an_interrupt(tmp_path, monkeypatch):
    """The only one here with a process: its own session, its environment, its exit code."""
    folder = create_run(tmp_path, name="run", config={})
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        "from onetrainer.run.event_log import EventWriter\nfrom onetrainer.run.events import *\n"
        "writer = EventWriter(Path(sys.argv[1]) / 'events.jsonl')\n"
        "for event in (Started(os.getpid(), 0, 1), *[Warned('x' * 500)] * 1500, Finished(1, [])):\n"
        "    writer.write(event)\n"
        "assert os.getsid(0) == os.getpid()\n"
    )
    (tmp_path / "quick.py").write_text(code)
    monkeypatch.setattr(client, "WORKER", "quick")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = client.start(folder)
    assert run.wait(DEADLINE) == 0, Path(folder.log).read_text()
    out = io.StringIO()  # 750 kB of events: read to the end before the worker counts as dead
    assert follow(run, out=out) == 0
    assert out.getvalue().startswith('"run-001" starts: 1 steps in total\n')
    assert "Done: 1 steps." in out.getvalue()


def test_each_validation_is_told_in_a_line(folder):
    known = {"images": 8, "best_step": 2, "is_best": True, "verdict": "improving"}
    better = "Validation loss 0.139: still improving."
    lines = shown(
        folder,
        Validated(2, 0.1391, 0.002, words=better, **known),
        Validated(2, 0.1423, 0.002, words="Not told", weights="last", **known),
        Finished(2, []),
    )
    assert lines[1:3] == [
        "after step 2: Validation loss 0.139: still improving.",
        "after step 2, without EMA: validation loss 0.142",
    ]


def test_rewards_are_told_in_place_of_the_loss_and_each_evaluation_in_a_line(folder):
    (folder.rewards / "step-000002").mkdir(parents=True)
    known = {"reward": 1.0, "error": 0.1, "best_step": 1, "is_best": True}
    first, step, second, _, images = shown(
        folder,
        Evaluated(0, verdict="flat", words="It rose", **known),
        Rewarded(2, 0.5312, 0.25, 4),
        progress(2, 2),
        Evaluated(2, verdict="hacking", words="It fell.", **known),
        Finished(2, []),
    )[1:]
    assert first == "after step 0: It rose."
    assert "100%  reward 0.531 ± 0.250  " in step
    assert "loss" not in step
    assert second == "warning: after step 2: It fell."
    assert images == f"Images of the validation prompts: {folder.rewards}"


def test_the_events_of_an_earlier_worker_are_not_those_of_this_one(folder):
    scripted(folder, Started(1, 0, 5), Warned("old"), Finished(5, []))
    folder.log.write_text("no such model\n")
    # A new worker ignores the events file of the one before; this one died before it wrote its own.
    died = Run(folder, _Ended(2), not_file=folder.events.stat().st_ino)
    out = io.StringIO()
    assert follow(died, out=out) == 2
    assert out.getvalue() == "no such model\n"


class _Ended:
    """A process that has ended with this exit code."""

    pid = 7

    def __init__(self, code):
        self.code = code

    def poll(self):
        return self.code

    def wait(self, _timeout=None):
        return self.code
