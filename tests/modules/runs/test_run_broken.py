"""Whole runs with broken steps: skipped, gone back from, or the end; and what is said of them."""

import json
import math
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from modules.jobs.train import train
from modules.objectives.denoising import Denoising
from modules.training import reporter
from modules.training.checkpoints import WEIGHTS_FILE
from onetrainer.errors import UserError
from onetrainer.run.events import BrokenStep, Progress, Warned
from tests import pretend, runs
from tests.cases import cases
from tests.close import near
from tests.stepping import equal

QUIET = {"sampling": {"prompts": [], "every": 0, "at_start": False, "at_end": False}}
NAN = float("nan")


@pytest.fixture
def breaking(monkeypatch):
    """Makes the losses of steps NaN, from 1, as long as their noise is that of the first try."""

    def steps(*numbers, always=False):
        def draw(self, batch, *, seed, step):
            found = original(self, batch, seed=seed, step=step)
            if step + 1 not in numbers or (
                seed != runs.SETTINGS["training"]["seed"] and not always
            ):
                return found
            # The latents of the batch itself, where the cause is looked for, are numbers.
            return replace(found, latents=found.latents * NAN)

        original = Denoising.draw
        monkeypatch.setattr(Denoising, "draw", draw)

    return steps


def new_run(config, **broken_steps):
    training = {**runs.SETTINGS["training"], "broken_steps": broken_steps}
    return runs.new_run(config, training=training, **QUIET)


def of_kind(folder, kind):
    return [event for event in runs.events_of(folder) if isinstance(event, kind)]


def weights(folder, step=6):
    return load_file(folder.checkpoint(step) / WEIGHTS_FILE)


def test_a_broken_step_is_skipped_with_all_that_led_there(config, breaking):
    breaking(5)
    folder = new_run(config)
    assert train(folder) == 0
    (event,) = of_kind(folder, BrokenStep)
    assert (event.step, event.cause) == (5, "loss")
    assert len(event.images) == len(event.timesteps) == len(event.losses) == 2
    assert all(path.endswith(".png") for path in event.images)
    assert event.losses == [None, None]
    assert event.gradient_norm is None
    assert "the loss is nan" in event.message
    assert "learning rate" in event.message
    progress = of_kind(folder, Progress)
    assert [event.step for event in progress] == [1, 2, 3, 4, 5, 6]
    assert [math.isfinite(event.loss) for event in progress] == [True] * 4 + [False, True]
    assert all(event.gradient_norm > 0 for event in progress if event.step != 5)
    assert all(torch.isfinite(weight).all() for weight in weights(folder).values())


def test_too_many_broken_steps_in_a_row_end_the_run_with_the_last_good_weights(config, breaking):
    breaking(4, 5)
    folder = new_run(config, max_in_a_row=2)
    with pytest.raises(UserError, match="2 steps in a row are broken; step 5: the loss is nan"):
        train(folder)
    assert [step for step, _ in folder.complete_checkpoints()] == [3, 5]
    assert equal(weights(folder, 5), weights(folder, 3))
    assert train(folder) == 0  # what was broken is behind it
    assert [event.step for event in of_kind(folder, BrokenStep)] == [4, 5]


def test_steps_in_a_row_are_counted_over_a_resume(config, breaking, crash_in):
    breaking(3, 4)
    folder = new_run(config, max_in_a_row=2)
    crash_in(folder, 4)
    with pytest.raises(UserError, match="2 steps in a row"):
        train(folder)


def test_a_run_stops_at_the_first_broken_step_if_asked_to(config, breaking):
    breaking(5)
    folder = new_run(config, action="stop")
    with pytest.raises(UserError, match="step 5: the loss is nan"):
        train(folder)
    assert [step for step, _ in folder.complete_checkpoints()] == [3, 5]


def test_a_run_that_goes_back_lowers_its_rate_and_draws_the_step_anew(config, breaking):
    breaking(5)
    folder, plain = new_run(config, action="go-back", lr_factor=0.25), new_run(config)
    assert train(folder) == train(plain) == 0
    (retry,) = json.loads(folder.retries.read_text())
    assert (retry["broken"], retry["since"], retry["lr_factor"]) == (5, 3, 0.25)
    rates, usual = ([event.lr for event in of_kind(each, Progress)] for each in (folder, plain))
    assert rates == near([*usual[:3], *(0.25 * rate for rate in usual[3:])])
    (broken,) = of_kind(folder, BrokenStep)
    assert (broken.step, broken.cause, broken.went_back) == (5, "loss", True)
    (text,) = [e.text for e in of_kind(folder, Warned) if "went back" in e.text]
    assert text.startswith("step 5 was broken, so the run went back to step 3")


@pytest.mark.parametrize(("number", "killed_after"), cases([(4, 2), (4, 5), (2, 5)], [(4, 5)]))
def test_a_run_that_goes_back_ends_the_same_if_it_is_killed_in_between(
    config, breaking, crash_in, number, killed_after
):
    breaking(number)
    straight, killed = (new_run(config, action="go-back") for _ in range(2))
    assert train(straight) == 0
    crash_in(killed, killed_after)
    assert train(killed) == 0
    assert killed.retries.read_bytes() == straight.retries.read_bytes()
    assert [event.step for event in of_kind(killed, BrokenStep)] == [number]
    assert equal(weights(killed), weights(straight))


def test_a_run_goes_back_no_more_often_than_asked(config, breaking):
    breaking(2, 4, 5, always=True)
    folder = new_run(config, action="go-back", max_returns=2)
    with pytest.raises(UserError, match="gone back 2 times, and a step is broken again; step 5"):
        train(folder)
    entries = json.loads(folder.retries.read_text())
    assert [(entry["broken"], entry["since"]) for entry in entries] == [(2, 0), (4, 3)]


def test_a_base_model_that_holds_nan_is_named_with_its_tensor(tmp_path):
    config = runs.write_project(tmp_path)
    (path,) = (tmp_path / "base" / "unet").glob("*.safetensors")
    tensors = load_file(path)
    name = "conv_in.weight"
    tensors[name].view(-1)[3] = NAN
    save_file(tensors, path, {"format": "pt"})
    folder = new_run(config, action="go-back")
    with pytest.raises(UserError, match=f"{name} has values that are no numbers") as caught:
        train(folder)
    assert not folder.complete_checkpoints()  # a repaired file is trained from step 0
    assert str(tmp_path / "base") in caught.value.what
    assert "again" in caught.value.remedy
    assert "learning rate" not in caught.value.remedy


def test_a_schedule_that_has_reached_zero_is_a_warning(config):
    at_zero = {"kind": "points", "points": [{"at": 0.0, "factor": 0.0}]}
    path = config.with_name("zero.json")
    path.write_text(json.dumps(json.loads(config.read_text()) | {"schedule": at_zero}))
    folder = runs.new_run(path, training={"steps": 12}, **QUIET)
    assert train(folder) == 0
    (text,) = [e.text for e in of_kind(folder, Warned) if "learning rate" in e.text]
    assert text.startswith("the learning rate is 0 since step 1:")


@pytest.mark.long  # tests/modules/optim/test_broken_steps.py holds it for single steps
@pytest.mark.parametrize("action", ["skip", "go-back"])
def test_on_a_gpu_whose_losses_are_read_late_the_weights_are_the_same(
    config, breaking, monkeypatch, action
):
    breaking(5)
    monkeypatch.setattr(reporter, "_MAX_UNREAD_SECONDS", math.inf)
    changes = {"steps": 7, "broken_steps": {"action": action}}
    training = {**runs.SETTINGS["training"], **changes}
    plain, on_gpu = (
        runs.new_run(
            config,
            training=training,
            hardware={**runs.SETTINGS["hardware"], "device": device},
            **QUIET,
        )
        for device in ("cpu", "cuda")
    )
    assert train(plain) == 0
    with pretend.accelerator():
        assert train(on_gpu) == 0
    assert equal(weights(on_gpu, 7), weights(plain, 7))
    assert [event.step for event in of_kind(on_gpu, BrokenStep)] == [5]
    assert on_gpu.retries.exists() == plain.retries.exists() == (action == "go-back")
    if action == "go-back":
        assert on_gpu.retries.read_bytes() == plain.retries.read_bytes()
