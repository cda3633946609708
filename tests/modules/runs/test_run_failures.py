"""What fails beside the steps of a run, and how little of them is lost."""

import errno
import math
import os
import shutil
import signal
from pathlib import Path

import pytest

from modules import worker
from modules.evaluation.validation import ImageEvaluation
from modules.formats.files import files
from modules.jobs import train as job
from modules.jobs.train import train
from modules.methods.adapters.adapters import Adapters
from modules.objectives.denoising import Denoising
from modules.training import checkpoints, disk_space, reporter, sample_task
from modules.training.engine import Engine
from modules.training.inbox import Inbox
from modules.training.reporter import Reporter
from modules.training.tensorboard import Board
from onetrainer.errors import UserError
from onetrainer.messages.formatting import format_size
from onetrainer.metrics import files as metrics_files
from onetrainer.run.checkpoint_files import size_of
from onetrainer.run.events import (
    Checkpoint,
    Finished,
    Phase,
    Progress,
    Sample,
    Started,
    Stopped,
    Validated,
    Warned,
)
from onetrainer.run.run_folder import RunFolder
from tests import runs, tiny
from tests.forked import Forked

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def straight(config):
    """A run to which nothing happens."""
    folder = runs.new_run(config)
    assert train(folder) == 0
    return folder


def reported(folder, *kinds):
    return [event for event in runs.events_of(folder) if isinstance(event, kinds)]


def essence(folder):
    """The events of a run that do not depend on the time."""
    return [
        (event.step, event.loss, event.lr) if isinstance(event, Progress) else event
        for event in reported(folder, Progress, Sample, Finished)
    ]


def lora(folder):
    return (folder.output / "my-lora.safetensors").read_bytes()


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_a_run_goes_on_from_before_a_damaged_checkpoint_to_the_same_bytes(straight):
    folder = RunFolder(shutil.copytree(straight.path, straight.path.with_name("damaged")))
    flip(folder.checkpoint(6) / "weights.safetensors")
    assert train(folder) == 0
    assert [event.step for event in reported(folder, Started)] == [0, 3]
    assert [event.step for event in reported(folder, Checkpoint)] == [3, 6]
    (warning,) = reported(folder, Warned)
    assert "step-000006 is damaged (weights.safetensors" in warning.text
    assert "goes on from step 3" in warning.text
    assert lora(folder) == lora(straight)
    assert essence(folder) == essence(straight)


def fail(number):
    def failing(*_arguments, **_named):
        raise OSError(number, os.strerror(number))

    return failing


def losses(folder):
    return [event.loss for event in reported(folder, Progress)]


def steps_of(folder):
    return [step for step, _ in folder.complete_checkpoints()]


def validated(config, **changes):
    """A run that validates after every second step."""
    tiny.write_images(config.parent / "held", ("a line",))
    section = {"use": True, "folder": str(config.parent / "held"), "every": 2, "timesteps": 1}
    return runs.new_run(config, validation=section, **changes)


def test_a_damaged_best_checkpoint_is_reported_and_not_exported(config, monkeypatch):
    def progress(self, **arguments):
        original(self, **arguments)
        if arguments["step"] == 6:
            flip(folder.checkpoint(2) / "weights.safetensors")

    folder, original = validated(config), Reporter.progress
    monkeypatch.setattr(ImageEvaluation, "best_step", lambda _: 2)
    monkeypatch.setattr(Reporter, "progress", progress)
    assert train(folder) == 0
    assert reported(folder, Finished)[0].outputs == ["output/my-lora.safetensors"]
    (warning,) = reported(folder, Warned)
    assert "the best step, 2, is damaged (weights" in warning.text


def ask(monkeypatch, command, step):
    """Ask for something as soon as a step is made."""

    def progress(self, **arguments):
        original(self, **arguments)
        if arguments["step"] == step:
            inboxes[-1].put(command)

    def remember(self, *arguments, **named):
        make(self, *arguments, **named)
        inboxes.append(self)

    inboxes, original, make = [], Reporter.progress, Inbox.__init__
    monkeypatch.setattr(Inbox, "__init__", remember)
    monkeypatch.setattr(Reporter, "progress", progress)


def test_what_fails_beside_the_steps_is_left_out_and_reported_once(config, straight, monkeypatch):
    class Full:
        def __getattr__(self, name):
            return fail(errno.ENOSPC)

    def write(path, content):
        if path.name in ("step-000000.json", "step-000002.json"):
            fail(errno.EROFS)()
        measured(path, content)

    def export(self, path, options):
        if path.name == "my-lora-000002":
            fail(errno.EDQUOT)()
        return exported(self, path, options)

    measured, exported = metrics_files.write_atomic, Adapters.export
    monkeypatch.setattr(metrics_files, "write_atomic", write)
    monkeypatch.setattr(Adapters, "export", export)
    monkeypatch.setattr(sample_task, "save_image", fail(errno.ENOSPC))
    monkeypatch.setattr(job, "open_board", lambda folder, **_: Board(Full(), folder))
    ask(monkeypatch, "save", 2)
    folder = validated(config, output={"tensorboard": True})
    assert train(folder) == 0
    texts = [event.text for event in reported(folder, Warned)]
    for kind, reason in (
        ("writing the TensorBoard log", "no space"),
        ("validating", "read-only"),
        ("sampling", "no space"),
        ("writing the output file", "quota"),
    ):
        (text,) = (text for text in texts if text.startswith(f"{kind} "))
        assert "failed and is left out" in text
        assert reason in text
    assert len(texts) == 4
    assert not reported(folder, Sample)
    assert [event.step for event in reported(folder, Validated)] == [4, 6]
    assert losses(folder) == losses(straight)
    assert reported(folder, Finished)[0].outputs == ["output/my-lora.safetensors"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has such a file")
def test_a_log_that_cannot_be_written_ends_no_run(config, straight):
    folder = runs.new_run(config)
    with Path("/dev/full").open("wb") as full:
        assert Forked(worker.main, [str(folder.path)], full).wait(runs.DEADLINE) == 0
    assert lora(folder) == lora(straight)


def test_an_error_in_a_step_saves_the_steps_before_it(config, straight, monkeypatch):
    def broken(self, batch, *, seed, step):
        if step == 4:
            raise RuntimeError("CUDA out of memory")
        return original(self, batch, seed=seed, step=step)

    original, folder = Denoising.draw, runs.new_run(config)
    with monkeypatch.context() as patch:
        patch.setattr(Denoising, "draw", broken)
        with pytest.raises(RuntimeError, match="out of memory"):
            train(folder)
    assert steps_of(folder) == [3, 4]
    assert train(folder) == 0
    assert lora(folder) == lora(straight)
    assert essence(folder) == essence(straight)


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_that_fails_while_it_updates_weights_is_not_saved(config, monkeypatch, fused):
    def broken(self, *arguments):
        result = original(self, *arguments)
        made.append(1)
        if len(made) == 5:
            raise RuntimeError("a kernel failed")
        return result

    made, name = [], "backward" if fused else "step"
    original = getattr(Engine, name)
    for pause in ("_REPORT_SECONDS", "_MAX_UNREAD_SECONDS"):  # as of fast steps
        monkeypatch.setattr(reporter, pause, math.inf)
    monkeypatch.setattr(Engine, name, broken)
    clipping = {"gradient_clipping": 0.0} if fused else {}
    changes = {"training": clipping, "sampling": {"every": 0}}  # which would write the steps so far
    folder = runs.new_run(config, optimizer={"fused_backward": fused}, **changes)
    with pytest.raises(RuntimeError, match="a kernel failed"):
        train(folder)
    assert steps_of(folder) == [3]
    assert [event.step for event in reported(folder, Progress)] == [1, 2, 3, 4]


def test_events_that_cannot_be_written_end_the_run_after_a_checkpoint(
    config, straight, monkeypatch
):
    def write(descriptor, content):
        if b'"step": 4' in content:
            fail(errno.ENOSPC)()
        return original(descriptor, content)

    original, folder = os.write, runs.new_run(config, sampling={"every": 0})
    with monkeypatch.context() as patch:
        patch.setattr(reporter, "_REPORT_SECONDS", -1.0)  # or steps 4 and 5 are written at once
        patch.setattr(os, "write", write)
        with pytest.raises(UserError, match=r"events\.jsonl: cannot write here \(no space left"):
            train(folder)
    assert steps_of(folder) == [3, 4]
    assert train(folder) == 0
    assert losses(folder) == [loss for step, loss in enumerate(losses(straight)) if step != 3]


def test_a_checkpoint_that_fails_is_tried_again_and_then_ends_the_run(config, monkeypatch):
    def write(path, content):
        failures.append(path)
        if len(failures) in failing:
            fail(errno.EROFS)()
        original(path, content)

    original, folder = checkpoints.write_atomic, runs.new_run(config)
    monkeypatch.setattr(checkpoints, "write_atomic", write)
    for given, steps in (({1, 2}, []), ({1}, [3])):
        failing, failures = given, []
        with pytest.raises(UserError, match="read-only"):
            train(folder)
        assert steps_of(folder) == steps
        assert not list(folder.checkpoints.glob("*.part"))
    assert train(folder) == 0
    assert reported(folder, Phase)[-1].name == "saving"


def free_on_disk(monkeypatch, free):
    """Disks have so many bytes free, which is looked up at every step."""
    used = shutil.disk_usage("/")
    monkeypatch.setattr(disk_space.shutil, "disk_usage", lambda _: used._replace(free=free()))
    monkeypatch.setattr(disk_space, "_SECONDS_BETWEEN_CHECKS", 0)


def test_a_run_pauses_while_its_disk_still_has_room_for_a_checkpoint(config, straight, monkeypatch):
    def free():
        is_low = any(event.step == 5 for event in reported(folder, Progress))
        return (65 << 20) - (is_low << 20)

    folder = runs.new_run(config)
    with monkeypatch.context() as patch:
        free_on_disk(patch, free)
        patch.setattr(reporter, "_REPORT_SECONDS", -1.0)  # or step 5 is written with later ones
        assert train(folder) == 3
        assert steps_of(folder) == [3, 5]
        (stopped,) = reported(folder, Stopped)
        assert stopped.reason == "pause"
        size = format_size(size_of(folder.checkpoint(3)))
        for part in (str(folder.path), "67.1 MB free", f"takes {size}"):
            assert part in stopped.because
        before = folder.events.read_bytes()
        with pytest.raises(UserError, match=r"67\.1 MB free"):
            train(folder)
        assert folder.events.read_bytes() == before
    assert train(folder) == 0
    assert lora(folder) == lora(straight)


def test_a_run_without_a_checkpoint_pauses_too(config, monkeypatch):
    free_on_disk(monkeypatch, lambda: (64 << 20) + 1000)
    folder = runs.new_run(config)
    assert train(folder) == 3
    assert steps_of(folder) == [1]


def test_what_a_worker_killed_in_an_export_has_left_is_removed_at_the_next_start(
    config, straight, monkeypatch
):
    def main(arguments):
        def begin(self, path, options):
            files._data = lambda _tensor: os.kill(os.getpid(), signal.SIGKILL)
            return export(self, path, options)

        export, Adapters.export = Adapters.export, begin
        return worker.main(arguments)

    folder = runs.new_run(config)
    with (folder.path / "worker.log").open("wb") as log:
        assert Forked(main, [str(folder.path)], log).wait(runs.DEADLINE) == -signal.SIGKILL
    (half,) = folder.output.iterdir()
    assert half.name.startswith(".onetrainer-my-lora")
    with monkeypatch.context() as patch:
        patch.setattr("modules.jobs.loading.load_base", fail(errno.EIO))
        with pytest.raises(OSError, match="Input/output"):
            train(folder)
    assert not list(folder.output.iterdir())
    assert train(folder) == 0
    assert lora(folder) == lora(straight)
