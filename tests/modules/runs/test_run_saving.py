"""Whole runs whose checkpoints are written while their next steps are made."""

import errno
import shutil

import pytest

from modules.jobs.train import train
from modules.training import checkpoint_writer, checkpoints
from modules.training.inbox import Inbox
from onetrainer.errors import UserError
from onetrainer.run.events import Checkpoint, Progress, Stopped
from onetrainer.run.run_folder import RunFolder
from tests import runs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def straight(config):
    """A run whose checkpoints are small, and so written between its steps."""
    folder = runs.new_run(config)
    assert train(folder) == 0
    return folder


@pytest.fixture(autouse=True)
def in_background(monkeypatch):
    monkeypatch.setattr(checkpoint_writer, "BACKGROUND_BYTES", 0)


@pytest.fixture
def slow_disk(monkeypatch):
    """Sets what must be before the last file of step 3 is on the disk."""

    def until(condition):
        def write(path, content):
            if path.parent.name == "step-000003.part":
                runs.wait_until(condition)
            original(path, content)

        original = checkpoints.write_atomic
        monkeypatch.setattr(checkpoints, "write_atomic", write)

    return until


def reported(folder, *kinds):
    return [event for event in runs.events_of(folder) if isinstance(event, kinds)]


def has_made(folder, step):
    return any(event.step == step for event in reported(folder, Progress))


def files(path):
    return {file.name: file.read_bytes() for file in path.glob("*.safetensors")}


def test_steps_go_on_while_one_is_written_and_change_no_bit_of_it(config, straight, slow_disk):
    folder = runs.new_run(config)
    slow_disk(lambda: has_made(folder, 5))
    assert train(folder) == 0
    steps = [event.step for event in reported(folder, Progress, Checkpoint)]
    assert steps.index(5) < len(steps) - 1 - steps[::-1].index(3)  # the checkpoint's own event
    for step in (3, 6):
        assert files(folder.checkpoint(step)) == files(straight.checkpoint(step))
    shutil.rmtree(folder.checkpoint(6))
    assert train(folder) == 0
    assert files(folder.output) == files(straight.output)


def test_a_pause_waits_until_it_is_complete(config, straight, slow_disk, monkeypatch):
    inboxes, make = [], Inbox.__init__

    def remember(self, *arguments, **named):
        make(self, *arguments, **named)
        inboxes.append(self)

    def leave():
        if has_made(folder, 4):
            inboxes[0].put("pause")
        return inboxes[0].is_leaving()

    monkeypatch.setattr(Inbox, "__init__", remember)
    folder = runs.new_run(config)
    slow_disk(leave)
    assert train(folder) == 3
    *_, last, stopped = reported(folder, Checkpoint, Stopped)
    assert stopped.reason == "pause"
    assert last.step == stopped.step
    assert [step for step, _ in folder.complete_checkpoints()] == [3, stopped.step]
    assert train(folder) == 0
    assert files(folder.output) == files(straight.output)


def test_one_that_cannot_be_written_ends_the_run_with_its_cause(config, slow_disk):
    def fail():
        if not has_made(folder, 4):
            return False
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = RunFolder(runs.new_run(config, training={"steps": 500}).path)
    slow_disk(fail)
    with pytest.raises(UserError, match=r"step-000003: .*no space left"):
        train(folder)
    last = reported(folder, Progress)[-1].step
    assert last < 500
    # What was trained since is saved, where there is room by then.
    assert [step for step, _ in folder.complete_checkpoints()] == [last]
