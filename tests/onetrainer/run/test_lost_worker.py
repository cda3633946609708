"""Why a worker is gone that another window has started, from what it and the system have left."""

import os
import platform
import subprocess
import sys

import psutil
import pytest

from onetrainer.run.client import attach
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Started
from onetrainer.run.run_folder import create_run
from onetrainer.run.worker_mark import WorkerMark, read_mark

BEGIN = "worker {} begins at 2026-11-26 05:00:00\n"
CRASH = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1:\n" + "  File\n" * 40
GROUP = "app.slice/terminal.scope"


@pytest.fixture
def folder(tmp_path):
    made = create_run(tmp_path, name="run", config={})
    writer = EventWriter(made.events)
    writer.write(Started(77, 0, 9))
    writer.close()
    counts = tmp_path / GROUP / "memory.events"
    counts.parent.mkdir(parents=True)
    counts.write_text("low 0\noom 1\noom_kill 3\n")
    return made


@pytest.fixture
def journal(tmp_path, monkeypatch):
    """What `journalctl` prints: a program of that name, before the system's."""
    text, program = tmp_path / "journal", tmp_path / "bin" / "journalctl"
    text.write_text("")
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat {text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return text


def test_the_end_of_a_worker_that_another_process_started_is_told_from_records(
    folder, journal, tmp_path
):
    counts, here = tmp_path / GROUP / "memory.events", platform.node()
    by_another = "killed by another"
    gone = tmp_path / "gone.scope" / "memory.events"
    before, after, still = (WorkerMark(77, here, str(counts), kills) for kills in (2, 3, 3))
    for mark, log, said, failure, words in [
        (before, "", "", "out of memory", "memory (RAM) ran out"),
        (after, "", "", by_another, "has not recorded"),
        (WorkerMark(77, here, str(counts), 4), "", "", "lost", "probably"),  # counted anew since
        (still, CRASH, "", "crashed", "SIGSEGV"),
        (
            still,
            CRASH + BEGIN.format(77),
            "",
            "killed by another",
            "has not recorded",
        ),  # of one before
        (WorkerMark(77, here, str(gone)), "", "", "lost", "probably killed"),
        (
            WorkerMark(77, here, str(gone)),
            "",
            "Out of memory: Killed process 77 (python) total-vm:9kB\n",
            "out of memory",
            "ran out",
        ),
        (
            WorkerMark(77, here, str(gone)),
            "",
            f"Killed process 778 (sh)\nKilled /user.slice/{tmp_path.name}/gone.scope due to"
            " memory pressure for /user.slice being 61.00% > 50.00%\n",
            "out of memory",
            "ran out",
        ),
        (WorkerMark(77, here, str(gone)), "", "Killed process 778 (sh)\n", "lost", "probably"),
        (WorkerMark(77, "another", str(counts), 2), "", "", "lost", "probably killed"),
    ]:
        folder.lock.write_bytes(b"\0" + mark.encode().encode())
        folder.log.write_text(BEGIN.format(77) + log)
        journal.write_text(said)
        run = attach(folder)
        run.poll()
        left = run.unexpected_exit()
        assert (left.failure, words in left.what) == (failure, True), (mark, log, said, left)


def test_a_record_that_cannot_be_read_is_not_taken_for_an_empty_one(folder, journal, tmp_path):
    counts = tmp_path / GROUP / "memory.events"
    mark = WorkerMark(77, platform.node(), str(counts), 3)
    folder.lock.write_bytes(b"\0" + mark.encode().encode())
    (tmp_path / "bin" / "journalctl").write_text("#!/no/such/shell\n")
    run = attach(folder)
    run.poll()
    assert "probably" in run.unexpected_exit().what


def test_the_number_of_a_process_on_another_computer_means_none_here(folder):
    with folder.locked():
        folder.lock.write_bytes(b"\0" + WorkerMark(os.getpid(), "another").encode().encode())
        assert folder.worker_pid() is None


def test_a_run_that_was_under_way_when_the_computer_went_off_is_reported_as_that(folder, journal):
    folder.lock.write_bytes(b"\0" + WorkerMark(77, platform.node()).encode().encode())
    folder.log.write_text(BEGIN.format(77))
    for path in (folder.events, folder.log, folder.lock):
        os.utime(path, (0, psutil.boot_time() - 3600))
    assert attach(folder).unexpected_exit().failure == "restarted"


def test_a_worker_leaves_its_mark_in_the_lock_and_older_ones_are_read(folder):
    code = "import sys; from pathlib import Path\nfrom onetrainer.run.run_folder import RunFolder\n"
    code += "with RunFolder(Path(sys.argv[1])).locked(): pass"
    with subprocess.Popen([sys.executable, "-c", code, str(folder.path)]) as worker:
        pass
    assert folder.worker_pid() is None  # it runs no more
    assert (folder.last_worker().pid, folder.last_worker().host) == (worker.pid, platform.node())
    assert read_mark("123") == WorkerMark(123)
    assert read_mark('{"pid": 1, "other": 2}') == WorkerMark(1)  # of a later version
    assert [read_mark(text) for text in ("", "{}", "[1]", "0", "[" * 100_000)] == [None] * 5
