"""A family with another backbone, text encoder and noise process, registered by one line."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from modules.families.registry import load_family
from modules.forecast.forecast import Planner, target_of
from modules.formats.models.component_shapes import build_empty
from modules.jobs.train import train
from onetrainer.config.base.encoders import FAMILY
from onetrainer.config.fields import settings as all_settings
from onetrainer.config.run.model import Model
from onetrainer.config.train import TrainConfig
from onetrainer.errors import Fix
from onetrainer.families import registry
from onetrainer.model_files.inspection import inspect_model
from onetrainer.presets.presets import load_document, resolve
from onetrainer.rules.rules import check_rules
from onetrainer.run.events import Progress
from tests import runs, tiny
from tests.families.flow.spec import FLOW

STEPS = 2


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "FAMILIES", (*registry.FAMILIES, FLOW))  # the one line
    write_model(tmp_path / "base.safetensors")
    tiny.write_images(tmp_path / "pictures")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(settings()))
    return path


def settings():
    return {
        "model": {"family": "flow", "path": "base.safetensors"},
        "data": {"folder": "pictures", "resolution": 64, "cache_latents": True},
        "method": {"kind": "lora", "rank": 2, "text_encoders": {"te1": {"train": True}}},
        "objective": {
            "kind": "denoising",
            "weighting": {"kind": "min_snr"},
            "timesteps": {"kind": "logit_normal"},
        },
        "training": {"steps": STEPS, "batch_size": 1, "seed": 5},
        "optimizer": {"lr": 0.01},
        "validation": {"use": True, "split": 0.5, "every": 1},
        "sampling": {
            "prompts": [{"prompt": "a red square", "width": 64, "height": 64}],
            "steps": 2,
            "every": 0,
            "at_start": False,
        },
        "output": {"folder": "runs", "precision": "fp32", "save_every": 1},
        "hardware": {"precision": "fp32", "threads": 1, "device": "cpu"},
    }


def write_model(path):
    state = {
        FLOW.components[folder].prefix + name: tensor
        for folder, tensors in untrained().items()
        for name, tensor in tensors.items()
    }
    save_file(state, path)


def write_folder(path):
    shutil.copytree(FLOW.configs, path)
    for folder, tensors in untrained().items():
        save_file(tensors, path / folder / f"{FLOW.components[folder].weights}.safetensors")
    return path


def untrained():
    """The tensors of every component, by its folder."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return {
            folder: {
                name: 0.1 * torch.randn(tensor.shape)
                for name, tensor in build_empty(component, values).state_dict().items()
            }
            for folder, component in FLOW.components.items()
            if (values := json.loads((FLOW.configs / folder / "config.json").read_text()))
        }


def started(config, **changes):
    return runs.new_run(config, **changes)


def losses(folder):
    return [event.loss for event in runs.events_of(folder) if isinstance(event, Progress)]


def errors(document):
    found = check_rules(resolve(document, source=""))
    return [problem for problem in found if problem.severity == "error"]


def test_its_file_is_recognized(config):
    found = inspect_model(config.parent / "base.safetensors")
    assert (found.kind, found.missing) == ("flow", ())


def test_its_file_without_a_component_is_recognized_as_incomplete(config):
    path = config.parent / "base.safetensors"
    save_file({n: t for n, t in load_file(path).items() if not n.startswith("vae.")}, path)
    found = inspect_model(path)
    assert (found.kind, found.missing) == ("flow", ("VAE",))


def test_its_folder_is_recognized_and_opens_as_its_file_does(config):
    path = write_folder(config.parent / "folder")
    found = inspect_model(path)
    assert (found.kind, found.missing, found.precision) == ("flow", (), "fp32")
    file, folder = (loaded(each) for each in (config.parent / "base.safetensors", path))
    for name, tensor in file.unet.state_dict().items():
        assert torch.equal(tensor, folder.unet.state_dict()[name])
    shutil.rmtree(path / "byte_encoder")
    assert inspect_model(path).missing == ("byte encoder",)


def loaded(path):
    section = Model(family="flow", path=str(path))
    return load_family(section, compute_dtype=torch.float32, device=torch.device("cpu"))


@pytest.mark.parametrize("layer", ["lora_bytes_fc1", "byte_encoder.fc1"])
def test_a_lora_of_its_text_encoder_is_recognized(config, layer):
    path = config.parent / "lora.safetensors"
    save_file({f"{layer}.lora_down.weight": torch.zeros(2, 16)}, path)
    found = inspect_model(path)
    assert (found.kind, found.made_for) == ("lora", "flow")


def test_memory_and_time_of_its_runs_are_forecast(config):
    document = resolve(load_document(config), source="config.json")
    with Planner(target_of(document)) as plans:
        found = plans.forecast(plans.resolve_checkpointing(document))
    assert found.peak_bytes > 0


def test_what_its_noise_process_does_not_predict_is_refused(config):
    document = settings() | {"model": {"family": "flow", "path": "x", "prediction": "v_prediction"}}
    [problem] = errors(document)
    assert (problem.path, problem.what) == ("model.prediction", "no Flow model predicts velocity")
    assert problem.fix == Fix("model.prediction", "auto")
    document["model"]["family"] = "sd15"
    assert errors(document) == []


def test_its_text_encoder_has_settings_under_its_own_name(config):
    found = {s.path: s for s in all_settings(TrainConfig, selected={FAMILY: "flow"})}
    assert found["method.text_encoders.te1.train"].ui.label == "Train the byte encoder"


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (
            {"kind": "lora", "rank": 2, "targets": "attn"},
            "lora_unet_attentions_1_to_q.lora_up.weight",
        ),
        ({"kind": "full", "targets": "full"}, "transformer.attentions.1.to_q.weight"),
    ],
    ids=["lora", "full"],
)
def test_it_trains_caches_validates_samples_and_saves(config, method, expected):
    config.write_text(json.dumps(settings() | {"method": method}))
    folder = started(config)
    assert train(folder) == 0
    kinds = {type(event).__name__ for event in runs.events_of(folder)}
    assert {"Progress", "Validated", "Sample", "Checkpoint", "Finished"} <= kinds
    assert all(loss > 0 for loss in losses(folder))
    [file] = (folder.path / "output").glob("*.safetensors")
    assert expected in load_file(file)


def test_it_trains_a_slider_without_images(config):
    directions = [{"target": "a square", "positive": "a red square", "negative": "blue"}]
    slider = {"kind": "slider", "directions": directions, "width": 64, "height": 64, "steps": 3}
    own = {"objective": slider, "data": {"folder": ""}, "validation": {"use": False}}
    config.write_text(json.dumps(settings() | own))
    folder = started(config)
    assert train(folder) == 0
    assert len(losses(folder)) == STEPS
    assert "Validated" in {type(event).__name__ for event in runs.events_of(folder)}


def test_a_resumed_run_equals_an_uninterrupted_one(config):
    whole, parted = started(config), started(config, training={"steps": 1})
    assert train(whole) == train(parted) == 0
    document = json.loads(parted.config.read_text())
    document["training"]["steps"] = STEPS
    parted.config.write_text(json.dumps(document))
    assert train(parted) == 0
    assert losses(parted)[-1] == losses(whole)[-1]
