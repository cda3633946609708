"""What the job of training asks the hub for, what its images decide, and how its file is named."""

import hashlib
import json
import shutil

import pytest
from huggingface_hub import constants
from PIL import Image
from pydantic_core import to_json
from safetensors import safe_open

from modules.formats.files import hub_download
from modules.jobs.train import train
from modules.training.checkpoint_record import find_restore_point
from onetrainer.errors import UserError
from onetrainer.run.events import Sample, Started, Warned
from tests import runs

pytestmark = pytest.mark.slow

OLD, NEW = "0" * 40, "1" * 40
ONE_STEP = {"training": {"steps": 1}, "sampling": {"every": 0, "at_start": False}}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return runs.write_project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def cache(tmp_path, monkeypatch, config):
    """The hub's cache on this disk, and no hub; the model's newest version is the old one yet."""

    class Unreachable:
        def model_info(self, *_arguments, **_options):
            raise OSError("no network")

    monkeypatch.setattr(hub_download, "HfApi", Unreachable)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    repository = tmp_path / "hub" / "models--owner--model"
    shutil.copytree(config.parent / "base", repository / "snapshots" / OLD)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(OLD)
    return repository


def publish(repository, commit):
    """A newer version, which could not even be opened."""
    (repository / "snapshots" / commit).mkdir()
    (repository / "snapshots" / commit / "model_index.json").write_text("{}")
    (repository / "refs" / "main").write_text(commit)


def change(folder, section, **values):
    document = json.loads(folder.config.read_text())
    document[section] |= values
    folder.config.write_text(json.dumps(document))


def begun(config):
    folder = runs.new_run(config, model={"path": "owner/model"}, **ONE_STEP)
    assert train(folder) == 0
    return folder


def reported(folder, kind):
    return [event for event in runs.events_of(folder) if isinstance(event, kind)]


def test_a_resumed_run_goes_on_with_the_version_of_the_model_that_it_began_with(config, cache):
    folder = begun(config)
    assert find_restore_point(folder).record.versions["base model"] == f"owner/model@{OLD}"
    publish(cache, NEW)
    change(folder, "training", steps=2)
    assert train(folder) == 0
    assert find_restore_point(folder).record.step == 2
    assert find_restore_point(folder).record.versions["base model"] == f"owner/model@{OLD}"
    assert reported(folder, Started)[-1].versions["base model"] == f"owner/model@{OLD}"
    assert not [event for event in reported(folder, Warned) if "packages" in event.text]


def test_a_version_that_is_gone_is_reported(config, cache):
    folder = begun(config)
    publish(cache, NEW)
    shutil.rmtree(cache / "snapshots" / OLD)
    change(folder, "training", steps=2)
    with pytest.raises(UserError, match=f"owner/model: the version this run.*{OLD}"):
        train(folder)


@pytest.mark.parametrize("path", ["other/model", "base"])
def test_another_model_in_the_config_is_no_change_of_libraries(config, cache, path):
    folder = begun(config)
    shutil.copytree(cache, cache.with_name("models--other--model"))
    path = str(config.parent / path) if path == "base" else path
    change(folder, "model", path=path)
    change(folder, "training", steps=2)
    assert train(folder) == 0
    versions = find_restore_point(folder).record.versions
    assert versions.get("base model") == (f"{path}@{OLD}" if path == "other/model" else None)
    assert [event.text.partition(" has")[0] for event in reported(folder, Warned)] == [
        "“Base model” (model.path)",
        "“Length” (training.steps)",
    ]


def test_migrating_a_config_is_no_change_of_it(config):
    folder = runs.new_run(config, training={"steps": 2}, output={"save_every": 1})
    document = {**json.loads(folder.config.read_text()), "version": 5}
    document["hardware"]["temp_device"] = document["hardware"].pop("offload_device")
    folder.config.write_text(json.dumps(document, indent=2))
    assert train(folder) == 0
    shutil.rmtree(folder.checkpoint(2))
    state = folder.checkpoint(1) / "state.json"
    digest = hashlib.sha256(to_json(document)).hexdigest()
    record = {**json.loads(state.read_text()), "config_digest": digest}
    del record["files"], record["sha256"], record["config"]  # as an earlier version wrote it
    state.write_text(json.dumps(record))
    assert train(folder) == 0
    assert not reported(folder, Warned)


def parameters(folder):
    (sample,) = reported(folder, Sample)
    with Image.open(folder.path / sample.path) as image:
        return image.info["parameters"], json.loads(image.info["onetrainer"])


def test_images_of_a_run_name_hub_model_and_clip_skip(config, cache):
    model = {"path": "owner/model", "clip_skip": 2}
    folder = runs.new_run(config, model=model, **ONE_STEP)
    assert train(folder) == 0
    text, own = parameters(folder)
    assert "Model: owner/model, Clip skip: 2, " in text
    assert (own["model"], own["clip_skip"]) == ("owner/model", 2)


def test_the_file_has_the_naming_that_the_config_asks_for_and_images_name_no_path(config):
    folder = runs.new_run(config, output={"lora_naming": "comfyui"}, **ONE_STEP)
    assert train(folder) == 0
    with safe_open(folder.output / "my-lora.safetensors", "np") as file:
        keys = list(file.keys())
    assert all(key.startswith("diffusion_model.") for key in keys)
    text, own = parameters(folder)
    assert "Model: base, RNG" in text
    assert str(config.parent) not in text + json.dumps(own)
