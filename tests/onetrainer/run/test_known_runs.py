"""All runs of some folders, however many, of which little is read twice."""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from onetrainer.run.events import Finished, Progress, Sample, Started
from onetrainer.run.known_folders import known_run_folders, remember_run_folder
from onetrainer.run.known_runs import find_runs
from onetrainer.run.own_notes import change_notes
from tests.onetrainer.run.test_history import make_run
from tests.onetrainer.run.test_record import validated


def test_all_runs_are_listed_and_a_later_window_reads_only_what_has_changed(tmp_path):
    """Another content of the same size and time, which no run has, is what was read before."""
    runs = tmp_path / "runs"
    folders = [make_run(runs, "a", Started(1, 0, 9)) for _ in range(2)]
    rich = make_run(
        runs, "b", Started(1, 0, 9), validated(3, 0.5, "first"), Progress(9, 9, 1, 0.1, 0.0),
        Sample(9, 0, "samples/step-000009-00.png", "a cat", 1), Finished(9, []),
    )  # fmt: skip
    (rich.samples / "step-000009-00.png").write_bytes(b"x")
    change_notes(rich, label="Best", tags=("one", "two"), is_starred=True)
    for number in range(1000):
        (runs / f"c-{number:04d}").mkdir()
        (runs / f"c-{number:04d}" / "config.json").write_text("{}")
    file = tmp_path / "user" / "runs.sqlite"
    counts = []
    first = find_runs(
        runs, known={}, file=file, progress=lambda done, total: counts.append((done, total))
    )
    assert len(first) == 1003
    assert counts[-1] == (1000, 1003)
    change_notes(folders[0], notes="new")
    later = find_runs(runs, known={}, file=file)
    changed = {run.path for run in later} - {run.path for run in later if run in first}
    assert changed == {folders[0].path}
    assert next(run for run in later if run.path == rich.path).settings == {"a": 1}


def test_runs_that_are_gone_are_forgotten_and_a_damaged_file_is_begun_anew(tmp_path):
    folder = make_run(tmp_path / "runs", "a", Started(1, 0, 9))
    file = tmp_path / "runs.sqlite"
    for damage in (b"", b"no database " * 1000):
        assert len(find_runs(tmp_path / "runs", known={}, file=file)) == 1
        file.write_bytes(damage)
    for _ in range(2):
        assert find_runs(tmp_path / "runs", known={}, file=file)[0].path == folder.path
    (tmp_path / "runs").rename(tmp_path / "unplugged")
    assert find_runs(tmp_path / "runs", known={}, file=file) == []
    (tmp_path / "unplugged").rename(tmp_path / "runs")
    with closing(sqlite3.connect(file)) as kept:
        assert kept.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    folder.path.rename(tmp_path / "elsewhere")
    assert find_runs(tmp_path / "runs", known={}, file=file) == []


@pytest.mark.skipif(sys.platform != "linux", reason="names there are Unicode")
def test_runs_in_a_folder_of_another_encoding_are_kept_too(tmp_path):
    parent = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    folder = make_run(parent, "a", Started(1, 0, 9))
    for _ in range(2):
        (run,) = find_runs(parent, known={}, file=tmp_path / "runs.sqlite")
        assert run.path == folder.path
    remember_run_folder(parent)
    assert known_run_folders()[0] == parent
