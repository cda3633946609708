"""Checkpoints that are written while training goes on."""

import errno
import threading
from contextlib import closing

import pytest

from modules.training import checkpoint_writer
from modules.training import checkpoints as checkpoints_module
from modules.training.checkpoint_record import CheckpointRecord, find_restore_point
from modules.training.checkpoint_writer import CheckpointWriter
from modules.training.disk_space import DiskSpaceTask
from onetrainer.config.optimizers.adam import AdamW
from onetrainer.errors import UserError
from onetrainer.run.event_log import EventWriter, read_all
from onetrainer.run.run_folder import create_run
from tests.runs import DEADLINE
from tests.stepping import Training, equal


@pytest.fixture
def folder(tmp_path):
    return create_run(tmp_path, name="run", config={"some": "config"})


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(checkpoint_writer, "BACKGROUND_BYTES", 0)
    return Training(AdamW(), ema=True).run(0, 2)


@pytest.fixture
def writer(made, folder):
    with (
        closing(EventWriter(folder.events)) as events,
        closing(CheckpointWriter(made.checkpoints(folder), events)) as writer,
    ):
        yield writer


@pytest.fixture
def disk(monkeypatch):
    """A disk that takes the last file of a checkpoint when this event is set, not before."""
    ready, original = threading.Event(), checkpoints_module.write_atomic

    def write(path, content):
        assert ready.wait(DEADLINE)
        original(path, content)

    monkeypatch.setattr(checkpoints_module, "write_atomic", write)
    return ready


def save(writer, made, step):
    writer.save(CheckpointRecord(step, "digest", 0, {}, made.engine.state_dict()), best_step=None)


def steps_of(folder):
    return [step for step, _ in folder.complete_checkpoints()]


def test_it_holds_the_step_that_was_saved_while_later_steps_are_made(made, folder, writer, disk):
    save(writer, made, 2)
    made.run(2, 6)
    assert writer.is_writing
    assert steps_of(folder) == []
    disk.set()
    writer.wait()
    again = Training(AdamW(), ema=True)
    again.checkpoints(folder).restore(find_restore_point(folder).record)
    again.run(2, 6)
    assert equal(again.snapshot(), made.snapshot())
    assert equal(again.ema.state_dict(), made.ema.state_dict())
    assert [event.step for event in read_all(folder.events)] == [2]


def test_the_next_one_waits_until_it_is_complete(made, folder, writer, disk):
    save(writer, made, 2)
    threading.Timer(0.05, disk.set).start()
    save(writer, made, 3)
    assert steps_of(folder)[0] == 2
    writer.wait()
    assert steps_of(folder) == [2, 3]


def test_one_that_cannot_be_written_is_reported_once_and_leaves_nothing(
    made, folder, writer, monkeypatch
):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoints_module, "write_atomic", fail)
    save(writer, made, 2)
    writer._thread.shutdown()
    assert writer.has_failed
    with pytest.raises(UserError, match="no space left"):
        writer.wait()
    assert not writer.has_failed
    writer.wait()
    assert not list(folder.checkpoints.iterdir())


def test_closing_finishes_what_is_being_written(made, folder, disk):
    with (
        closing(EventWriter(folder.events)) as events,
        closing(CheckpointWriter(made.checkpoints(folder), events)) as writer,
    ):
        save(writer, made, 2)
        threading.Timer(0.05, disk.set).start()
    assert steps_of(folder) == [2]


@pytest.mark.parametrize(("bytes_", "free"), [(1 << 40, 1 << 60), (0, 10)])
def test_small_ones_and_those_without_room_in_memory_are_written_at_once(
    made, folder, writer, monkeypatch, bytes_, free
):
    monkeypatch.setattr(checkpoint_writer, "BACKGROUND_BYTES", bytes_)
    monkeypatch.setattr(checkpoint_writer, "free_memory", lambda: free)
    save(writer, made, 2)
    assert steps_of(folder) == [2]


def test_room_on_the_disk_is_not_judged_while_one_is_written(
    made, folder, writer, disk, monkeypatch
):
    monkeypatch.setattr("modules.training.disk_space.shortage", lambda *_: "no room")
    save(writer, made, 2)
    task = DiskSpaceTask(folder, writer, None, steps=10)
    assert not task.is_due(2)
    disk.set()
    writer.wait()
    assert DiskSpaceTask(folder, writer, None, steps=10).is_due(2)
