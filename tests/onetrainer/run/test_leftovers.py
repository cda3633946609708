"""What killed workers leave in a run's folder: removed when the run starts again, and only that."""

from multiprocessing import get_context

import pytest

from onetrainer.files.atomic import temporary_path
from onetrainer.run.leftovers import clean
from onetrainer.run.run_folder import create_run

PLACES = (
    "config.json",
    "events.jsonl",
    "output/lora.safetensors",
    "output/model",
    "samples/step-000002-00.png",
    "validation/step-000002.json",
    "rewards/round-000001.safetensors",
    "rewards/step-000002/000-00.jpg",
    "start/0123456789abcdef/lora.safetensors",
)
"""Where a run writes."""


@pytest.fixture
def folder(tmp_path):
    return create_run(tmp_path, name="run", config={})


def _leave_in(folder):
    for place in PLACES:
        path = temporary_path(folder.path / place)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")


def paths(folder):
    return {path.relative_to(folder.path).as_posix() for path in folder.path.rglob("*")}


def test_unfinished_files_are_removed_wherever_a_run_writes(folder):
    killed = get_context("fork").Process(target=_leave_in, args=(folder,))
    killed.start()
    killed.join()
    assert len(list(folder.path.rglob(".onetrainer-*"))) == len(PLACES)
    clean(folder)
    assert not list(folder.path.rglob(".onetrainer-*"))
    assert "config.json" in paths(folder)


def test_where_only_the_worker_writes_the_lock_tells_that_no_writer_is_alive(folder, tmp_path):
    elsewhere = ".onetrainer-x-deadbeef-77-01234567.part"
    shared = tmp_path / "shared"
    shared.mkdir()
    folder.output.rmdir()
    folder.output.symlink_to(shared)
    for parent in (folder.path, *(folder.path / place for place in PLACES)):
        parent = parent if parent == folder.path else parent.parent
        parent.mkdir(parents=True, exist_ok=True)
        (parent / elsewhere).touch()
    (folder.checkpoints / elsewhere).touch()
    temporary_path(folder.samples / "of-this-process").touch()
    clean(folder)
    assert {path.parent for path in folder.path.rglob(".onetrainer-*")} == {folder.path}
    assert (shared / elsewhere).exists()
    folder.output.unlink()
    folder.output.mkdir()
    (folder.output / elsewhere).touch()
    clean(folder)
    assert not list(folder.output.iterdir())


def test_what_a_living_process_writes_and_files_of_other_names_stay(folder):
    temporary_path(folder.path / "report.zip").touch()
    mine = ("output/x.part", "output/.onetrainer-mine.part", "checkpoints/step-000001.damaged")
    for name in (*mine, "checkpoints/step-000002 copy", "checkpoints/best"):
        (folder.path / name).mkdir()
        (folder.path / name / "file").touch()
    before = paths(folder)
    clean(folder)
    assert paths(folder) == before
