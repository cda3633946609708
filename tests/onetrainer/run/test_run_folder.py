"""The run folder, its lock, and the events in it."""

import errno
import json
import math
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from onetrainer.errors import UserError
from onetrainer.run import client
from onetrainer.run.commands import Command, ImageRequest, decode_command, encode_command
from onetrainer.run.event_log import EventReader, EventWriter, rewind
from onetrainer.run.events import (
    Evaluated,
    Failed,
    Finished,
    Forecast,
    Phase,
    Progress,
    Sample,
    Started,
    Stopped,
    Validated,
    Warned,
)
from onetrainer.run.run_folder import RunFolder, cannot_write, create_run, fill_run, open_run
from onetrainer.run.wire import decode_event, encode_event
from tests.runs import DEADLINE

EVENTS = [
    Started(1, 0, 10, {"torch": "2"}),
    Phase("caching", 1, 2, "pictures"),
    Progress(1, 10, 0, 0.5, 1e-4, 2.0, 4.5, 100),
    Sample(0, 0, "samples/a.png", "a “cat”", 42),
    Warned("careful\nnow"),
    Finished(10, ["output/a"], ["x"]),
    Stopped(3, "pause"),
    Failed("user", "a", "b", "c"),
]


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    return create_run(tmp_path, name="run", config={"version": 1})


def test_events_of_older_versions_are_read_under_their_former_names():
    band = {"step": 1, "best_step": 1, "is_best": True, "error": 0.1}
    lines = [
        {"type": "Validated", **band, "loss": 0.2, "pictures": 3, "verdict": "flat", "words": "a",
         "by_concept": {"last": 0.2}, "weights": "last"},
        {"type": "Evaluated", **band, "reward": 1.0, "verdict": "flat", "words": "b",
         "pictures": [{"path": "average"}]},
        {"type": "Forecast", "phases": {"drawing": {"unet": 5, "average": 1}}, "peak_bytes": 6,
         "peak_phase": "drawing", "cures": [{"words": "c", "changes": {"ema.use": False}}],
         "time": {"words": "d", "parts": {"drawing": 2.0}}},
    ]  # fmt: skip
    assert [decode_event(json.dumps(line)) for line in lines] == [
        Validated(
            1, 0.2, 0.1, 3, 1, True, "flat", "a",
            by_concept={"last": 0.2}, weights="without_ema",
        ),
        Evaluated(1, 1.0, 0.1, 1, True, "flat", "b", images=[{"path": "average"}]),
        Forecast(
            {"sampling": {"unet": 5, "ema": 1}}, "sampling", 6,
            fixes=[{"message": "c", "changes": {"ema.use": False}}],
            time={"message": "d", "parts": {"sampling": 2.0}},
        ),
    ]  # fmt: skip


def test_events_and_commands_survive_the_wire_and_other_lines_are_passed_over():
    for event in EVENTS:
        line = encode_event(event, time=1.0)
        assert line.count("\n") == 1
        assert decode_event(line) == event
    later = {"type": "Warned", "time": 1, "text": "a", "color": "red"}  # of a later version
    assert decode_event(json.dumps(later)) == Warned("a")
    for line in ("", "x", "[]", '{"type": "Nope"}', '{"type": "Phase"}', "1"):
        assert decode_event(line) is None
    assert decode_command(encode_command("pause")) == Command("pause")
    assert decode_command('{"command": "format-disk"}') is None
    images = ImageRequest("7", {"prompts": ["a cat"]})
    assert decode_command(encode_command("sample", images)) == Command("sample", images)
    canceled = Command("cancel", canceled="7")
    assert decode_command(encode_command("cancel", canceled="7")) == canceled


def test_events_of_numbers_alone_are_written_as_json_writes_them():
    finite = Progress(1, 10**12, 0, 0.1 + 0.2, 1e-05, 3.0, -1.0, 7, None)
    for event in (finite, *(replace(finite, loss=each) for each in (math.nan, math.inf, True))):
        body = {"type": "Progress", "time": 1.5, **vars(event)}
        assert encode_event(event, time=1.5) == json.dumps(body) + "\n"


def test_a_reader_follows_and_never_sees_half_a_line(folder):
    reader, writer = EventReader(folder.events), EventWriter(folder.events)
    assert reader.read().events == []
    writer.write(Warned("a"))
    half = encode_event(Warned("b"), time=0).encode()
    with folder.events.open("ab") as handle:
        handle.write(half[:9])
    assert reader.read().events == [Warned("a")]
    with folder.events.open("ab") as handle:
        handle.write(half[9:])
    assert reader.read().events == [Warned("b")]
    writer.close()


def test_a_reader_notices_that_the_run_was_resumed_from_an_earlier_point(folder):
    reader, writer = EventReader(folder.events), EventWriter(folder.events)
    writer.write(Warned("a"))
    kept = writer.size
    writer.write(Warned("b"))
    assert len(reader.read().events) == 2
    writer.close()
    rewind(folder.events, kept)
    writer = EventWriter(folder.events)
    for _ in range(50):  # longer than before: the size alone would not show it
        writer.write(Warned("c"))
    news = reader.read()
    assert news.restarted
    assert news.events == [Warned("a")] + [Warned("c")] * 50
    assert not reader.read().restarted
    writer.close()


def test_runs_are_numbered_and_no_other_folder_is_taken_for_one(tmp_path):
    names = [create_run(tmp_path / "runs", name="a b", config={}).name for _ in range(3)]
    assert names == ["a b-001", "a b-002", "a b-003"]
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.txt").touch()
    with pytest.raises(UserError, match="not empty"):
        fill_run(tmp_path / "own", config={})
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["mine.txt"]
    for path in (tmp_path / "own", tmp_path / "nope"):
        with pytest.raises(UserError, match=str(path)):
            open_run(path)


def test_only_a_checkpoint_with_its_state_counts(folder):
    for step, has_state in ((5, True), (10, True), (15, False)):
        folder.checkpoint(step).mkdir()
        if has_state:
            (folder.checkpoint(step) / "state.json").touch()
    (folder.checkpoints / "step-000020.part").mkdir()
    assert [step for step, _ in folder.complete_checkpoints()] == [5, 10]


def test_a_second_worker_is_refused_and_a_dead_one_leaves_the_lock(folder):
    code = (
        "import sys, time; from pathlib import Path; "
        "from onetrainer.run.run_folder import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).locked():\n  print('in', flush=True); time.sleep(600)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, folder.path], stdout=subprocess.PIPE)
    assert other.stdout is not None
    other.stdout.readline()
    assert folder.is_busy()
    with pytest.raises(UserError, match="another process"), folder.locked():
        pass
    assert folder.worker_pid() == other.pid
    client.attach(folder).kill()
    assert other.wait(DEADLINE) != 0
    other.stdout.close()
    assert folder.worker_pid() is None
    assert not folder.is_busy()
    with folder.locked():
        assert folder.is_busy()


def test_an_error_of_the_system_is_told_for_what_it_is(tmp_path):
    run, source = tmp_path / "run", tmp_path / "images" / "cat.png"
    for code, place, what, remedy in (
        (errno.ENOSPC, run / "new.part", f"{run}: cannot write here (no space", "Free some space"),
        (errno.EACCES, tmp_path, f"{run}: cannot write here (permission", "Correct its permission"),
        (errno.ENOTDIR, None, f"{run}: cannot write here (not a directory)", "Correct its path"),
        (errno.EIO, tmp_path / "run.part", f"{run}: cannot write here (input", "Check the disk"),
        (errno.ENOENT, source, f"{source}: no such file or directory", "Check the path."),
        (errno.EACCES, source, f"{source}: permission denied", "Correct its permissions, or"),
    ):
        name = None if place is None else str(place)
        error = cannot_write(run, OSError(code, os.strerror(code), name))
        assert (error.what.startswith(what), error.remedy.startswith(remedy)) == (True, True), error


@pytest.mark.parametrize(
    ("code", "words"),
    [("import os; os.abort()", "SIGABRT"), ("raise SystemExit(7)", "exit code 7")],
)
def test_a_silent_death_is_reported_with_the_log(folder, monkeypatch, code, words):
    (folder.path / "dying.py").write_text(f"print('last words', flush=True)\n{code}\n")
    monkeypatch.setenv("PYTHONPATH", str(folder.path))
    monkeypatch.setattr(client, "WORKER", "dying")
    run = client.start(folder)
    run.wait(DEADLINE)
    run.poll()
    unexpected_exit = run.unexpected_exit()
    assert unexpected_exit is not None
    assert words in unexpected_exit.what
    assert "last words" in unexpected_exit.log


def test_a_run_is_attached_to_by_its_folder(folder):
    writer = EventWriter(folder.events)
    writer.write(Finished(1, []))
    writer.close()
    run = client.attach(folder)
    run.poll()
    assert run.unexpected_exit() is None  # it said how it ended
    run.send("save")
    assert folder.commands.read_text() == '{"command": "save"}\n'
