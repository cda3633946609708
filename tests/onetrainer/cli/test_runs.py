"""Runs and jobs as a person in a terminal meets them: output, signals, exit codes."""

import io
import json
import signal
from pathlib import Path

import pytest

from onetrainer import program
from onetrainer.__main__ import main
from onetrainer.cli import configs, jobs
from onetrainer.cli.follow import follow
from onetrainer.config.base.section import Section
from onetrainer.run import client
from onetrainer.run.client import Run
from onetrainer.run.commands import SILENCE
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import (
    Evaluated,
    Failed,
    Finished,
    Phase,
    Progress,
    Rewarded,
    Sample,
    Started,
    Stopped,
    Validated,
    Warned,
)
from onetrainer.run.run_folder import RunFolder, create_run

DEADLINE = 120


def scripted(folder, *events):
    writer = EventWriter(folder.events)
    for event in events:
        writer.write(event)
    writer.close()


class ScriptedRun(Run):
    """A run whose worker is a generator of events, which it writes one per poll; None for none."""

    pid = 7
    exit_code = 0

    def __init__(self, folder, script):
        super().__init__(folder)
        self._script, self._alive = script, True

    @property
    def is_alive(self):
        return self._alive

    def poll(self):
        event = next(self._script, self)
        self._alive = self._alive and event is not self
        if self._alive and event is not None:
            scripted(self.folder, event)
        return super().poll()

    def kill(self):
        self._alive = False


class Ended:
    """A process that has ended with this exit code."""

    pid = 7

    def __init__(self, code):
        self.code = code

    def poll(self):
        return self.code

    def wait(self, _timeout=None):
        return self.code


class Terminal(io.StringIO):
    def isatty(self):
        return True


def progress(step, total):
    return Progress(step, total, 0, 0.5, 1e-4)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("onetrainer.cli.follow.sleep", lambda _seconds: None)
    return create_run(tmp_path, name="run", config={})


def shown(folder, *events, code=0):
    """What the terminal shows of a worker that writes these events and ends."""
    out = io.StringIO()
    run = ScriptedRun(folder, iter([Started(7, 0, 2), *events]))
    assert follow(lambda: run, out=out) == code
    return out.getvalue().splitlines()


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    """Runs train or resume with the workers of these scripts, one after the other."""
    monkeypatch.setattr("onetrainer.cli.follow.sleep", lambda _seconds: None)
    monkeypatch.setattr(configs, "require_startable", lambda _problems, **_named: [])
    config = tmp_path / "config.json"
    config.write_text("{}")

    def run(*arguments, script):
        def start(folder):
            for path in (folder.events, folder.commands):  # a new worker replaces them
                path.unlink(missing_ok=True)
            return ScriptedRun(folder, script(folder))

        monkeypatch.setattr(client, "start", start)
        before = signal.getsignal(signal.SIGINT)
        code = main([str(config) if part == "CONFIG" else str(part) for part in arguments])
        assert signal.getsignal(signal.SIGINT) is before
        return code, capsys.readouterr().out

    return run


def interrupted(folder, number, leaving, *, in_step=True):
    """A worker that obeys; the signal comes in its second step."""
    yield Started(7, 0, 400)
    yield progress(1, 400)
    if in_step:
        signal.raise_signal(number)
    yield progress(2, 400)
    while not folder.commands.exists():
        yield progress(2, 400)
    assert f'"{leaving}"' in folder.commands.read_text()
    yield Stopped(2, leaving)


def at_once(folder):
    """A signal that comes before anybody follows the run."""
    signal.raise_signal(signal.SIGINT)
    return interrupted(folder, signal.SIGINT, "stop", in_step=False)


def test_an_interrupt_stops_the_run_and_sigterm_pauses_it_and_resume_continues(train, tmp_path):
    scripts = (
        lambda folder: interrupted(folder, signal.SIGINT, "stop"),
        lambda folder: interrupted(folder, signal.SIGTERM, "pause"),
        at_once,
    )
    for number, script in enumerate(scripts):
        folder = RunFolder(tmp_path / f"run{number}")
        code, output = train("train", "CONFIG", "--run-folder", folder.path, script=script)
        assert code == 3
        assert f"To continue: {program()} resume {folder.path}" in output
    rest = [Started(7, 2, 4), progress(4, 4), Finished(4, ["output/a.safetensors"], ["3 images"])]
    code, output = train("resume", folder.path, script=lambda _folder: iter(rest))
    assert code == 0
    assert f'"{folder.name}" continues after step 2: 4 steps in total' in output
    done = [Started(7, 4, 4), Finished(4, [])]
    again = train("resume", folder.path, script=lambda _folder: iter(done))
    assert again == (0, f'"{folder.name}" has already done all 4 steps\nDone: 4 steps.\n')
    assert output.splitlines()[-3:] == [
        "Done: 4 steps.", "  3 images", f"File: {folder.path / 'output/a.safetensors'}"
    ]  # fmt: skip


def deaf(folder, *interrupts):
    """A worker that obeys nothing; before a step comes a signal."""
    yield Started(7, 0, 400)
    for step, number in enumerate(interrupts, start=1):
        signal.raise_signal(number)
        yield progress(step, 400)
    while True:
        yield progress(len(interrupts), 400)


def test_a_second_interrupt_stops_without_saving_and_a_third_ends_the_process(train, tmp_path):
    folder = RunFolder(tmp_path / "run")
    thrice = [signal.SIGINT] * 3
    code, output = train(
        "train", "CONFIG", "--run-folder", folder.path, script=lambda _: deaf(folder, *thrice)
    )
    *_, first, second, last = output.splitlines()
    assert code == 3
    assert "then saving. Press Ctrl+C again to stop without saving." in first
    assert "without saving" in second and "again to end the process" in second
    assert last == (
        f"The process was ended. To continue from the beginning: {program()} resume {folder.path}"
    )
    assert [json.loads(line)["command"] for line in folder.commands.read_text().splitlines()] == [
        "stop", "discard"
    ]  # fmt: skip


def test_ending_the_process_is_offered_after_silence(folder, monkeypatch):
    def silent():
        yield Started(7, 0, 400)
        signal.raise_signal(signal.SIGTERM)
        yield progress(1, 400)
        yield None
        now[0] += SILENCE
        yield None
        signal.raise_signal(signal.SIGINT)
        while True:
            yield None

    now, out = [0.0], io.StringIO()
    monkeypatch.setattr("onetrainer.cli.follow.monotonic", lambda: now[0])
    assert follow(lambda: ScriptedRun(folder, silent()), out=out) == 3
    *_, offer, last = out.getvalue().splitlines()
    assert offer.startswith("The worker has not answered for 30 s. Press Ctrl+C to end its process")
    assert last.startswith("The process was ended.")


def test_a_run_is_stopped_and_paused_from_another_terminal(folder, monkeypatch, capsys):
    scripted(folder, Started(7, 0, 400), Warned("old"))
    for words, leaving, shown in (
        (["stop"], "stop", "Stopped after step 3."),
        (["pause"], "pause", "Paused after step 3."),
        (["stop", "--without-saving"], "discard", "Stopped after step 3 without saving."),
    ):
        run = ScriptedRun(folder, iter([None, progress(3, 400), Stopped(3, leaving)]))
        monkeypatch.setattr(client, "attach", lambda _folder, run=run: run)
        monkeypatch.setattr(RunFolder, "is_busy", lambda _: True)
        assert main([*words[:1], str(folder.path), *words[1:]]) == 0
        output = capsys.readouterr().out
        assert (shown in output, "old" in output) == (True, False)
        assert folder.commands.read_text().endswith(f'{{"command": "{leaving}"}}\n')
    assert main(["stop", str(folder.path), "--now"]) == 0
    assert not run.is_alive
    assert f"To continue from the beginning: {program()} resume" in capsys.readouterr().out
    monkeypatch.setattr(RunFolder, "is_busy", lambda _: False)
    assert main(["stop", str(folder.path)]) == 2
    assert "is not running" in capsys.readouterr().err


def test_an_interrupt_of_stop_or_pause_ends_that_command_only(folder):
    for leaving, goes_on in (
        ("stop", "stopping"),
        ("pause", "pausing"),
        ("discard", "stopping without saving"),
    ):
        out, run = io.StringIO(), ScriptedRun(folder, deaf(folder, signal.SIGINT))
        assert follow(lambda run=run: run, leaving=leaving, out=out) == 3
        assert run.is_alive
        assert "Ctrl+C only ends this command." in out.getvalue().splitlines()[0]
        assert out.getvalue().splitlines()[-1] == f"The run goes on {goes_on}."
        commands = folder.commands.read_text().splitlines()
        assert json.loads(commands[-1])["command"] == leaving
    assert len(commands) == 3


def test_a_run_stopped_before_its_first_step_says_that_there_was_nothing_to_save(folder):
    for reason, outcome in (("stop", "Stopped"), ("pause", "Paused"), ("discard", "Stopped")):
        lines = shown(folder, Stopped(0, reason), code=3)
        assert lines[-2:] == [
            f"{outcome} before the first step; nothing was trained yet, so nothing was saved.",
            f"To continue from the beginning: {program()} resume {folder.path}",
        ]
        folder.events.unlink()


def test_a_bad_run_folder_is_blamed_on_its_option(tmp_path, capsys):
    config, file = tmp_path / "config.json", tmp_path / "file"
    config.write_text("{}")
    file.touch()
    assert main(["train", str(config), "--run-folder", str(file / "run")]) == 2
    said = capsys.readouterr().err
    assert f"--run-folder: {file}: this is a file" in said
    assert "output.folder" not in said


def test_a_worker_process_is_followed_and_not_reached_by_an_interrupt(tmp_path, monkeypatch):
    """The only one here with a process: its own session, its environment, its exit code."""
    folder = create_run(tmp_path, name="run", config={})
    code = (
        "import os, sys\nfrom pathlib import Path\n"
        "from onetrainer.run.event_log import EventWriter\nfrom onetrainer.run.events import *\n"
        "writer = EventWriter(Path(sys.argv[1]) / 'events.jsonl')\n"
        "for event in (Started(os.getpid(), 0, 1), *[Warned('x' * 500)] * 300, Finished(1, [])):\n"
        "    writer.write(event)\n"
        "assert os.getsid(0) == os.getpid()\n"
    )
    (tmp_path / "quick.py").write_text(code)
    monkeypatch.setattr(client, "WORKER", "quick")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = client.start(folder)
    assert run.wait(DEADLINE) == 0, Path(folder.log).read_text()
    out = io.StringIO()  # 150 kB of events: read to the end before the worker counts as dead
    assert follow(lambda: run, out=out) == 0
    assert out.getvalue().startswith('"run-001" starts: 1 steps in total\n')
    assert "Done: 1 steps." in out.getvalue()


def test_each_event_of_a_run_is_printed_in_a_line(folder):
    (folder.rewards / "step-000002").mkdir(parents=True)
    known = {"images": 8, "best_step": 2, "is_best": True, "verdict": "improving"}
    seen = {"reward": 1.0, "error": 0.1, "best_step": 1, "is_best": True}
    lines = shown(
        folder,
        Validated(2, 0.1391, 0.002, message="Validation loss 0.139: still improving.", **known),
        Validated(2, 0.1423, 0.002, message="Not told", weights="without_ema", **known),
        Evaluated(0, verdict="flat", message="It rose", **seen),
        Sample(1, 0, "samples/a.png", "a cat", 1),
        Rewarded(2, 0.5312, 0.25, 4),
        progress(2, 2),
        Evaluated(2, verdict="hacking", message="It fell.", **seen),
        Warned("hot"),
        Finished(2, []),
    )
    assert [line for line in lines if not line.startswith("step 2/2")] == [
        '"run-001" starts: 2 steps in total',
        "after step 2: Validation loss 0.139: still improving.",
        "after step 2, without EMA: validation loss 0.142",
        "after step 0: It rose.",
        f"sample after step 1: {folder.path / 'samples/a.png'}",
        "warning: after step 2: It fell.",
        "warning: hot",
        "Done: 2 steps.",
        f"Images of the validation prompts: {folder.rewards}",
    ]
    (step,) = (line for line in lines if line.startswith("step 2/2"))
    assert "█ 100%  reward 0.531 ± 0.250  " in step
    assert "loss" not in step


def test_a_failed_run_is_reported_with_its_exit_code(folder):
    for kind, code in (("user", 2), ("program", 1)):
        lines = shown(folder, Failed(kind, "no memory", "Expected some", "Close it"), code=code)
        assert lines[-1] == "no memory. Expected some. Close it."


@pytest.mark.parametrize(
    ("exit_code", "code", "lines"),
    [
        (2, 2, ["no such model"]),
        (7, 1, ["The worker stopped with exit code 7 and without an error message.",
                "  | no such model", "The log is LOG"]),
    ],
)  # fmt: skip
def test_a_worker_that_died_before_its_first_event_is_reported_with_its_log(
    folder, exit_code, code, lines
):
    scripted(folder, Started(1, 0, 5), Warned("old"), Finished(5, []))  # of an earlier worker
    folder.log.write_text("no such model\n")
    died = Run(folder, Ended(exit_code), not_file=folder.events.stat().st_ino)
    out = io.StringIO()
    assert follow(lambda: died, out=out) == code
    assert out.getvalue().replace(str(folder.log), "LOG").splitlines() == lines


EVENTS = (
    Phase("loading", detail="loading the model base"),
    Phase("sampling", 1, 4, "step 3 of 20"),
    Sample(0, 0, "out/00001-42.png", "x", 42),
    Phase("saving", detail="m.safetensors"),
    Finished(0, ["out/00001-42.png", "out/grid.png"]),
)


def run_job(monkeypatch, *events, out=None, **named):
    class Script:
        def __init__(self, _name, _request):
            pass

        def events(self):
            return iter(events)

    monkeypatch.setattr(jobs, "Job", Script)
    if out is not None:
        monkeypatch.setattr("sys.stdout", out)
    return jobs.run_job("sample", Section(), **named)


def test_a_job_shows_what_it_is_doing_and_lists_each_file_once(monkeypatch):
    out = Terminal()
    assert run_job(monkeypatch, *EVENTS, out=out) == 0
    parts = [part.strip() for part in out.getvalue().split("\r")]
    for line in ("loading the model base", "sampling 1/4 (step 3 of 20)", "saving (m.safetensors)"):
        assert line in parts
    lines = out.getvalue().replace("\r", "\n").splitlines()
    assert [line for line in lines if line.startswith("out/")] == [
        "out/00001-42.png", "out/grid.png"
    ]  # fmt: skip


def test_a_failed_job_is_reported_on_standard_error_and_as_json(monkeypatch, capsys):
    failed = Failed("user", 'this model is "sdxl"', "", 'Choose "sdxl" as model.family')
    assert run_job(monkeypatch, failed) == 2
    message = 'this model is "sdxl". Choose "sdxl" as model.family.\n'
    assert capsys.readouterr() == ("", message)
    assert run_job(monkeypatch, failed, is_json=True) == 2
    assert '"problem": "this model is ' in capsys.readouterr().out
