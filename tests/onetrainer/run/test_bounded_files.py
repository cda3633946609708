"""What a worker writes all the time stays small: events of a million steps, and its log."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from onetrainer import ROOT
from onetrainer.run import event_log, log_file
from onetrainer.run.event_log import EventReader, EventWriter, read_all, rewind
from onetrainer.run.events import Checkpoint, Event, Progress, Rewarded, Sample
from onetrainer.run.log_file import rotate_log

STEPS, DEADLINE = 10_000, 120.0


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(event_log, "_STEPS_IN_FULL", 100)
    monkeypatch.setattr(event_log, "_SECONDS_PER_STEP", 1e9)  # however slow the machine is


def train(path: Path, first: int, last: int, also=lambda _: None) -> EventWriter:
    writer = EventWriter(path, also=also)
    for step in range(first, last + 1):
        writer.write(Rewarded(step, 0.5, 0.0, 1))
        writer.write(Progress(step, STEPS, 0, 1.0, 0.1))
        if step % 1000 == 0:
            writer.write(Sample(step, 0, "a.png", "a", 1))
            writer.write(Checkpoint(step, f"step-{step}"))
    return writer


def steps_of(events: list[Event], kind: type) -> list[int]:
    return [event.step for event in events if isinstance(event, kind)]


def test_a_long_run_writes_fewer_and_fewer_steps_and_everything_else(tmp_path, small):
    seen = []
    train(tmp_path / "events.jsonl", 1, STEPS, also=seen.append).close()
    events = read_all(tmp_path / "events.jsonl")
    steps = steps_of(events, Progress)
    assert steps[:199] == list(range(1, 200))
    assert steps[-1] == STEPS
    # About the sum of 100 / n for n from 1 to 100, and as many rewards.
    assert 500 < len(steps) < 700
    gaps = [after - before for before, after in pairwise(steps)]
    assert max(gaps) <= 2 * STEPS / 100
    assert steps_of(events, Rewarded) == steps
    assert len(steps_of(events, Sample)) == len(steps_of(events, Checkpoint)) == 10
    assert steps_of(seen, Progress) == list(range(1, STEPS + 1))  # TensorBoard shows each


def test_slow_steps_are_all_written(tmp_path, small, monkeypatch):
    monkeypatch.setattr(event_log, "_SECONDS_PER_STEP", -1.0)
    train(tmp_path / "events.jsonl", 900, 950).close()
    assert steps_of(read_all(tmp_path / "events.jsonl"), Progress) == list(range(900, 951))


def test_a_long_run_that_is_resumed_has_the_events_of_one_that_was_not(tmp_path, small):
    path = tmp_path / "events.jsonl"
    writer = train(path, 1, 1500)
    size = writer.size  # as a checkpoint holds it
    for step in range(1501, 1700):
        writer.write(Progress(step, STEPS, 0, 2.0, 0.1))
    writer.close()
    reader = EventReader(path)
    reader.read()
    rewind(path, size)
    train(path, 1501, 3000).close()
    assert reader.read().restarted
    train(tmp_path / "straight.jsonl", 1, 3000).close()
    straight = read_all(tmp_path / "straight.jsonl")
    assert read_all(path) == straight


WRITER = """
import os, sys, time
from pathlib import Path
from onetrainer.run import log_file
log_file._MOST_BYTES, log_file._SECONDS_PER_LOOK = 2000, 0.001
path = Path(sys.argv[1])
log_file.keep_log_bounded(path)
for number in range(10_000):
    os.write(1 + number % 2, b"line %05d\\n" % number)
    if number == 5_000:
        while not path.with_name("worker.log.1").exists():
            time.sleep(0.001)
while not path.exists() or os.fstat(1).st_size > 2000:
    time.sleep(0.001)
"""


def test_a_log_is_rotated_while_it_is_written_and_stays_in_order(tmp_path):
    log = tmp_path / "worker.log"
    with log.open("ab") as handle:
        subprocess.run(
            [sys.executable, "-c", WRITER, log],
            stdout=handle, stderr=handle, cwd=ROOT, check=True, timeout=DEADLINE,
        )  # fmt: skip
    older, newer = (
        (tmp_path / name).read_text().split() for name in ("worker.log.1", "worker.log")
    )
    lines = [*older, *newer][1::2]
    numbers = list(map(int, lines))
    for stream in (0, 1):  # each goes over to the new file by itself
        own = [number for number in numbers if number % 2 == stream]
        assert own == list(range(own[0], 10_000, 2))  # no line was lost between the two
    assert sorted(path.name for path in tmp_path.iterdir()) == ["worker.log", "worker.log.1"]


def test_a_log_is_rotated_once_it_is_large(tmp_path, monkeypatch):
    monkeypatch.setattr(log_file, "_MOST_BYTES", 3)
    log = tmp_path / "worker.log"
    assert not rotate_log(log)
    for text, is_rotated in (("abc", False), ("abcd", True), ("efgh", True)):
        log.write_text(text)
        assert rotate_log(log) == is_rotated
    assert not log.exists()
    assert (tmp_path / "worker.log.1").read_text() == "efgh"
