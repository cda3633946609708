"""Whole runs of concept sliders: presets, both ends, resume, other families."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from modules.jobs.train import train
from onetrainer import ROOT
from onetrainer.presets.presets import load_document
from onetrainer.run.events import Finished, Progress, Sample, Validated, Warned
from onetrainer.run.run_folder import RunFolder
from tests import runs, tiny

pytestmark = pytest.mark.slow

SMALL = {"steps": 3, "width": 64, "height": 64}
FAST = {"optimizer": {"lr": 0.002}, "schedule": {"warmup_steps": 0}}
PLAIN = {"precision": "fp32", "vae_precision": "fp32", "threads": 1, "device": "cpu"}


def slider_run(folder, family="sd15", **changes):
    """A run folder of the family's preset, with a tiny model and without images."""
    if not (folder / "base").exists():
        tiny.write_folder(folder / "base", name=family)
    document = load_document(ROOT / "configs" / "presets" / family / "slider.json")
    own = {
        "model": {"path": "base"},
        "objective": SMALL,
        "training": {"steps": 10},
        "sampling": {"prompts": [{"prompt": "a person", "width": 64, "height": 64}], "steps": 2},
        "output": {"folder": "runs", "save_every": 4, "precision": "fp32", "keep_checkpoints": 9},
        "hardware": PLAIN | {"gradient_checkpointing": "block"},
    }
    for given in (own, changes):
        for section, values in given.items():
            document[section] = {**document.get(section, {}), **values}
    path = folder / "config.json"
    path.write_text(json.dumps(document))
    return runs.new_run(path)


def reported(folder, kind):
    return [event for event in runs.events_of(folder) if isinstance(event, kind)]


def weights_of(folder, step=10):
    return load_file(folder.checkpoint(step) / "weights.safetensors")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("sliders")


@pytest.fixture(scope="module")
def straight(place):
    """Ten steps of the preset with a large learning rate, which nothing has interrupted."""
    folder = slider_run(place, **FAST)
    assert train(folder) == 0
    return folder


def test_a_slider_moves_predictions_toward_both_ends(straight):
    [check] = reported(straight, Validated)
    for end in ("at +1", "at -1"):
        assert 0.05 < check.concepts[end]["moved"] < 1.5
    assert reported(straight, Warned) == []
    assert len(reported(straight, Sample)) == 3  # at -1, 0 and 1
    [finished] = reported(straight, Finished)
    assert finished.summary == ["Trained on 2 directions.", check.message]


def test_a_run_that_goes_on_from_a_checkpoint_ends_in_the_same_bits(straight, tmp_path):
    folder = RunFolder(Path(shutil.copytree(straight.path, tmp_path / "run")))
    shutil.rmtree(folder.checkpoint(10))
    assert train(folder) == 0
    found, expected = weights_of(folder), weights_of(straight)
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    assert reported(folder, Validated) == reported(straight, Validated)


@pytest.mark.long
def test_a_preset_of_another_family_trains_and_warns_of_a_slider_that_does_not_move(tmp_path):
    folder = slider_run(tmp_path, "sdxl", optimizer={"lr": 1e-9})
    assert train(folder) == 0
    assert len(reported(folder, Progress)) == 10
    [warned] = reported(folder, Warned)
    assert "does not move predictions toward every end, but 0 % of the way at +1" in warned.text
    [file] = (folder.path / "output").glob("*.safetensors")
    assert load_file(file)
