"""Whole runs: outcome, resume, commands, and what goes wrong.

In a forked worker where the process matters, and in this one where it does not.
"""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from modules.jobs.train import train
from modules.methods.adapters.adapters import Adapters
from modules.training import checkpoint_writer
from modules.training.inbox import Inbox
from modules.training.reporter import Reporter
from modules.training.sample_task import SampleTask
from onetrainer.errors import UserError
from onetrainer.run import client
from onetrainer.run.events import (
    Checkpoint,
    Failed,
    Finished,
    Phase,
    Progress,
    Sample,
    Started,
    Stopped,
    Warned,
)
from tests import runs, tiny

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_workers")]


def lora(folder):
    return (folder.output / "my-lora.safetensors").read_bytes()


def weights(folder):
    """What stands behind the header, for runs whose config differs, which the metadata says."""
    data = lora(folder)
    return data[8 + int.from_bytes(data[:8], "little") :]


def reported(folder, kind):
    return [event for event in runs.events_of(folder) if isinstance(event, kind)]


def essence(folder):
    """The events of a run, without times and speeds."""
    return [
        (event.step, event.loss, event.lr) if isinstance(event, Progress) else event
        for event in runs.events_of(folder)
        if isinstance(event, Progress | Sample | Checkpoint | Finished)
    ]


def test_a_run_reports_every_step_once_and_leaves_its_files(straight):
    assert [event.step for event in reported(straight, Progress)] == [1, 2, 3, 4, 5, 6]
    assert [event.step for event in reported(straight, Sample)] == [0, 2, 4, 6]
    assert [event.step for event in reported(straight, Checkpoint)] == [3, 6]
    assert reported(straight, Finished)[0].outputs == ["output/my-lora.safetensors"]
    for event in reported(straight, Sample):
        assert (straight.path / event.path).is_file()


def test_a_second_run_gives_the_same_bytes(config, straight):
    again = runs.new_run(config)
    assert train(again) == 0
    assert lora(again) == lora(straight)
    assert essence(again) == essence(straight)
    for image in straight.samples.glob("*.png"):
        assert (again.samples / image.name).read_bytes() == image.read_bytes()


def test_a_killed_run_resumes_to_the_same_bytes(config, straight, at_a_moment):
    folder = runs.new_run(config)
    assert at_a_moment("kill 5", folder) == -signal.SIGKILL
    assert [event.step for event in reported(folder, Progress)] == [1, 2, 3, 4, 5]
    assert runs.finish(folder) == 0
    assert lora(folder) == lora(straight)
    assert essence(folder) == essence(straight)


def test_a_run_that_dies_before_a_checkpoint_begins_again(config, straight, crash_in):
    folder = runs.new_run(config)
    crash_in(folder, 2)
    assert train(folder) == 0
    assert lora(folder) == lora(straight)
    assert essence(folder) == essence(straight)


@pytest.mark.parametrize("background_bytes", [checkpoint_writer.BACKGROUND_BYTES, 0])
def test_a_run_killed_while_it_saves_resumes_to_the_same_weights(
    config, straight, at_a_moment, monkeypatch, background_bytes
):
    monkeypatch.setattr(checkpoint_writer, "BACKGROUND_BYTES", background_bytes)
    folder = runs.new_run(config, output={"save_every": 1})
    assert at_a_moment("kill-saving 4", folder) == -signal.SIGKILL
    assert [path.name for path in folder.checkpoints.glob("*.part")] == ["step-000004.part"]
    assert runs.finish(folder) == 0
    assert weights(folder) == weights(straight)
    assert not list(folder.checkpoints.glob("*.part"))


def test_a_paused_run_frees_the_device_and_goes_on(config, straight, at_a_moment):
    folder = runs.new_run(config)
    assert at_a_moment("pause 1", folder) == 3
    (stopped,) = reported(folder, Stopped)
    assert (stopped.step, stopped.reason) == (2, "pause")
    assert folder.checkpoint(stopped.step).is_dir()
    assert not list(folder.output.iterdir())
    assert runs.finish(folder) == 0
    assert lora(folder) == lora(straight)
    assert [event.step for event in reported(folder, Progress)] == [1, 2, 3, 4, 5, 6]
    assert reported(folder, Started)[-1].step == stopped.step


def test_stop_leaves_the_file_as_trained_so_far_and_save_now_too(config):
    folder = runs.new_run(config, training={"steps": 10_000}, sampling={"every": 0})
    run = client.start(folder)
    runs.wait_until(lambda: any(isinstance(e, Progress) for e in run.poll().events))
    run.send("save")
    runs.wait_until(lambda: len(list(folder.output.glob("*.safetensors"))) == 1)
    run.send("sample")
    runs.wait_until(lambda: any(isinstance(e, Sample) and e.step for e in run.poll().events))
    run.send("stop")
    assert run.wait(runs.DEADLINE) == 3
    (stopped,) = reported(folder, Stopped)
    assert (folder.path / stopped.outputs[0]).is_file()
    assert f"{stopped.step:06d}" in stopped.outputs[0]
    run.poll()
    assert run.unexpected_exit() is None


def test_a_run_with_dropout_and_accumulation_resumes_to_the_same_bytes(config, crash_in):
    changes = {
        "method": {**tiny.encoders(True), "dropout": 0.3},
        "hardware": {"precision": "bf16", "gradient_checkpointing": "block"},
        "training": {"steps": 5, "accumulation": 2, "batch_size": 1},
        "sampling": {"every": 0},
    }
    straight, folder = (runs.new_run(config, **changes) for _ in range(2))
    assert train(straight) == 0
    crash_in(folder, 4)
    assert train(folder) == 0
    assert lora(folder) == lora(straight)
    parts = {name.split("_")[1] for name in load_file(folder.output / "my-lora.safetensors")}
    assert parts == {"unet", "te"}


def test_a_second_worker_is_turned_away_and_the_first_not_disturbed(config):
    folder = runs.new_run(config, training={"steps": 10_000}, sampling={"every": 0})
    first = client.start(folder)
    runs.wait_until(lambda: any(isinstance(e, Started) for e in first.poll().events))
    with pytest.raises(UserError, match="another process"):
        client.start(folder)
    worker = [sys.executable, "-m", client.WORKER, str(folder.path)]
    second = subprocess.run(worker, capture_output=True, text=True)
    assert second.returncode == 2
    assert "another process" in second.stderr
    assert first.is_alive
    first.kill()
    assert len(reported(folder, Started)) == 1


def test_a_base_model_that_is_gone_is_one_message_and_exit_code_2(config):
    folder = runs.new_run(config, model={"path": str(config.parent / "gone")})
    assert runs.finish(folder) == 2
    (failed,) = reported(folder, Failed)
    assert failed.kind == "user"
    assert "gone" in failed.what
    assert "Traceback" not in folder.log.read_text()


def test_save_now_never_writes_weights_that_are_no_numbers(config, monkeypatch):
    def spoil_and_ask(self, **arguments):
        original(self, **arguments)
        if arguments["step"] == 4:
            with torch.no_grad():
                next(iter(method[0].parameter_groups()[0].parameters.values())).fill_(float("nan"))
            client.attach(folder).send("save")
            runs.wait_until(lambda: inbox[0].has("save"))

    def remember(kept, attribute):
        def made(self, *arguments, **named):
            init(self, *arguments, **named)
            kept.append(self)

        init = attribute.__init__
        monkeypatch.setattr(attribute, "__init__", made)

    method, inbox, original = [], [], Reporter.progress
    remember(method, Adapters)
    remember(inbox, Inbox)
    monkeypatch.setattr(Reporter, "progress", spoil_and_ask)
    folder = runs.new_run(config)
    with pytest.raises(UserError, match="not finite numbers"):
        train(folder)
    assert [step for step, _ in folder.complete_checkpoints()] == [3]
    assert not list(folder.output.iterdir())


def test_a_changed_config_counts_and_is_reported_once(config):
    folder = runs.new_run(config, training={"steps": 3}, sampling={"every": 0})
    assert train(folder) == 0
    changed = json.loads(folder.config.read_text())
    changed["training"]["steps"] = 5
    changed["optimizer"]["lr"] = 1e-30
    changed["optimizer"]["weight_decay"] = 0.0
    folder.config.write_text(json.dumps(changed))
    before = load_file(folder.output / "my-lora.safetensors")
    assert train(folder) == 0
    assert [event.step for event in reported(folder, Progress)] == [1, 2, 3, 4, 5]
    assert reported(folder, Progress)[-1].lr <= changed["optimizer"]["lr"]
    after = load_file(folder.output / "my-lora.safetensors")
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert [event.text.partition(" has")[0] for event in reported(folder, Warned)] == [
        "“Length” (training.steps)",
        "“Learning rate” (optimizer.lr)",
        "“Weight decay” (optimizer.weight_decay)",
    ]
    changed["training"]["steps"] = 4
    folder.config.write_text(json.dumps(changed))
    with pytest.raises(UserError, match="the run has made 5"):
        train(folder)


def test_changed_images_are_reported_and_unreadable_ones_once_however_often_it_resumes(
    config, tmp_path
):
    images = tmp_path / "pictures"
    shutil.copytree(config.parent / "pictures", images)
    Image.effect_noise((64, 64), 50).save(images / "cut.png")
    whole = (images / "cut.png").read_bytes()
    (images / "cut.png").write_bytes(whole[: len(whole) // 2])
    (images / "no picture.jpg").write_text("hello")
    folder = runs.new_run(config, data={"folder": str(images)}, training={"steps": 1})
    for _ in range(2):
        assert train(folder) == 0
    warned = " ".join(event.text for event in reported(folder, Warned))
    summary = " ".join(reported(folder, Finished)[-1].summary)
    for name in ("cut.png", "no picture.jpg"):
        assert (warned.count(name), name in summary) == (1, True)
    assert "Trained on 4 images" in summary
    (images / "picture-0.txt").write_text("another caption")
    folder.config.write_text(folder.config.read_text().replace('"steps": 1', '"steps": 2'))
    assert train(folder) == 0
    assert "captions have changed" in " ".join(event.text for event in reported(folder, Warned))


def test_samples_have_settings_of_their_own_and_show_the_adapter_at_strengths(config):
    small = {"width": 64, "height": 64}
    prompts = [
        {"prompt": "a", "strengths": "0, 0.5, 1"} | small,
        {"prompt": "b", "steps": 3, "guidance": 1, "sampler": "euler"} | small,
        {"prompt": "c", "use": False} | small,
    ]
    folder = runs.new_run(config, sampling={"prompts": prompts}, training={"steps": 2})
    assert train(folder) == 0
    sampled = [event for event in reported(folder, Sample) if event.step == 2]
    assert [event.prompt for event in sampled] == [f"a (strength {s})" for s in (0, 0.5, 1)] + ["b"]
    before = folder.samples / "step-000000-00.png"
    pixels, own = [], []
    for path in [before, *(folder.path / event.path for event in sampled)]:
        with Image.open(path) as image:
            pixels.append(image.tobytes())
            own.append(json.loads(image.info["onetrainer"]))
    # An untrained adapter has no effect, and a trained one none at 0.
    assert pixels[0] == pixels[1] and len(set(pixels)) == 4
    assert [each.get("strength") for each in own[1:]] == [0, 0.5, None, None]
    assert (own[-1]["steps"], own[-1]["guidance"], own[-1]["sampler"]) == (3, 1, "euler")


def test_a_stop_during_sampling_is_quick_and_resume_makes_the_rest(config, straight, monkeypatch):
    prompts = [{"prompt": f"picture {n}", "width": 64, "height": 64} for n in range(4)]
    folder = runs.new_run(config, sampling={"prompts": prompts})

    def stop_after_the_second(self, step, index, pixels):
        original(self, step, index, pixels)
        if (step, index) == (4, 1):
            client.attach(folder).send("stop")
            runs.wait_until(self.inbox.is_leaving)

    original = SampleTask._save
    monkeypatch.setattr(SampleTask, "_save", stop_after_the_second)
    assert train(folder) == 3
    monkeypatch.undo()
    folder.commands.write_bytes(b"")
    assert train(folder) == 0
    sampled = [(event.step, event.prompt_index) for event in reported(folder, Sample)]
    assert sampled == [(step, index) for step in (0, 2, 4, 6) for index in range(4)]
    assert weights(folder) == weights(straight)


@pytest.mark.parametrize(("command", "code"), [("stop", 0), ("discard", 3), ("pause", 3)])
def test_a_stop_during_the_last_samples_makes_no_more_and_a_pause_leaves_the_others_for_later(
    config, straight, monkeypatch, command, code
):
    prompts = [{"prompt": f"picture {n}", "width": 64, "height": 64} for n in range(3)]
    sampling = {"prompts": prompts, "every": 0, "at_start": False}
    folder = runs.new_run(config, sampling=sampling)

    def ask_after_the_first(self, step, index, pixels):
        original(self, step, index, pixels)
        if index == 0:
            client.attach(folder).send(command)
            runs.wait_until(self.inbox.is_leaving)

    original = SampleTask._save
    monkeypatch.setattr(SampleTask, "_save", ask_after_the_first)
    assert train(folder) == code
    sampled = [(event.step, event.prompt_index) for event in reported(folder, Sample)]
    assert sampled == [(6, 0)]
    phases = [event for event in reported(folder, Phase) if event.name == "sampling"]
    assert {phase.done for phase in phases} == {0}
    if command != "stop":
        assert reported(folder, Stopped) == [Stopped(6, command)]
        assert not list(folder.output.iterdir())
    if command == "pause":
        monkeypatch.undo()
        assert runs.finish(folder) == 0
        sampled = [(event.step, event.prompt_index) for event in reported(folder, Sample)]
        assert sampled == [(6, index) for index in range(3)]
    if command != "discard":
        assert [event.step for event in reported(folder, Finished)] == [6]
        assert not reported(folder, Stopped)
        assert weights(folder) == weights(straight)


def test_a_disk_that_fills_up_is_one_message(config, monkeypatch):
    folder = runs.new_run(config)

    def full(descriptor, content):
        if b'"step": 4' in content:
            original(descriptor, content[:9])
            raise OSError(28, "No space left on device")
        return original(descriptor, content)

    original = os.write
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(UserError, match="no space left"):
        train(folder)
    monkeypatch.undo()
    assert folder.events.read_bytes().endswith(b"\n")
    assert [event.step for event in reported(folder, Progress)] == [1, 2, 3]
