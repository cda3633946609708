"""The metadata of a real run's file, which has nothing private."""

import base64
import hashlib
import io
import json
from contextlib import nullcontext
from dataclasses import fields
from types import SimpleNamespace

import pytest
from PIL import Image
from safetensors import safe_open

from modules.jobs.train import train
from modules.training.sample_task import SampleTask
from modules.training.tasks import SaveTask
from onetrainer.config.run.output import Output
from onetrainer.config.run.sampling import Sampling
from onetrainer.presets.presets import resolve
from onetrainer.run.run_folder import RunFolder
from tests import runs

pytestmark = pytest.mark.slow

SECRET = "jane-doe-at-home"
WORDS = {"title": "Étude", "author": "墨", "trigger_words": "sumi", "description": "“ink”\n\nø"}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """A project in a folder with a name in it, and images and cache in others."""
    path = runs.write_project(tmp_path_factory.mktemp(SECRET))
    folder = path.parent
    for image in sorted((folder / "pictures").iterdir()):
        image.rename(image.with_name(f"{SECRET}-{image.name}"))
    document = json.loads(path.read_text())
    document["data"]["cache_folder"] = str(folder / f"cache of {SECRET}")
    document["metadata"] = WORDS
    path.write_text(json.dumps(document))
    return path


@pytest.fixture(scope="module")
def finished(config):
    folder = runs.new_run(config)
    assert train(folder) == 0
    return folder


def data_of(folder):
    return (folder.output / "my-lora.safetensors").read_bytes()


def metadata_of(folder):
    with safe_open(folder.output / "my-lora.safetensors", framework="np") as file:
        return file.metadata()


def test_the_file_says_what_was_done(finished):
    fields = metadata_of(finished)
    expected = {
        "ss_steps": "6", "ss_max_train_steps": "6", "ss_epoch": "3", "ss_num_epochs": "3",
        "ss_num_train_images": "4", "ss_num_batches_per_epoch": "2", "ss_seed": "5",
        "ss_network_dim": "4", "ss_network_alpha": "2.0", "ss_learning_rate": "0.01",
        "ss_lr_scheduler": "cosine", "ss_base_model_version": "sd_v1",
        "modelspec.architecture": "stable-diffusion-v1/lora", "modelspec.resolution": "64x64",
        "modelspec.title": "Étude", "modelspec.author": "墨", "modelspec.trigger_phrase": "sumi",
        "modelspec.description": "“ink”\n\nø", "modelspec.prediction_type": "epsilon",
    }  # fmt: skip
    assert {key: fields.get(key) for key in expected} == expected
    tags = json.loads(fields["ss_tag_frequency"])["pictures"]
    assert tags == {"a red square": 1, "a blue circle": 1, "green": 1, "night": 1}
    (bucket,) = json.loads(fields["ss_bucket_info"])["buckets"].values()
    assert bucket == {"resolution": [64, 64], "count": 4}


def test_the_thumbnail_is_the_first_sample_of_the_last_step(finished):
    url = metadata_of(finished)["modelspec.thumbnail"]
    data = base64.b64decode(url.removeprefix("data:image/jpeg;base64,"), validate=True)
    assert data == (finished.samples / "step-000006-00.thumb.jpg").read_bytes()
    assert Image.open(io.BytesIO(data)).size == (64, 64)


def test_the_run_can_be_repeated_from_its_file(config, finished):
    reported = json.loads(metadata_of(finished)["onetrainer_config"])
    run = json.loads(finished.config.read_text())
    for section, name in [("model", "path"), ("data", "folder"), ("data", "cache_folder"),
                          ("output", "folder")]:  # fmt: skip
        assert reported[section][name] == ""
        reported[section][name] = run[section][name]
    assert resolve(reported, source="the file") == resolve(run, source="the run")


def test_no_path_and_no_name_of_a_file_is_in_the_bytes(finished):
    assert SECRET in finished.config.read_text()
    assert SECRET.encode() not in data_of(finished)
    assert str(finished.path.parent).encode() not in data_of(finished)


def test_the_same_config_in_another_place_gives_the_same_bytes(config, finished, tmp_path):
    other = {"output": {"folder": str(tmp_path / "elsewhere")}, "data": {"cache_folder": ""}}
    again = runs.new_run(config, **other)
    assert train(again) == 0
    assert data_of(again) == data_of(finished)


def test_a_file_says_no_more_than_it_is_to(config):
    less = {"include_dataset": False, "include_config": False, "include_thumbnail": False}
    naming = {"lora_naming": "diffusers"}
    folder = runs.new_run(config, training={"steps": 3}, metadata=less, output=naming)
    assert train(folder) == 0
    reported = metadata_of(folder)
    assert (reported["modelspec.implementation"], reported["ss_network_alpha"]) == (
        "diffusers",
        "4",
    )
    assert (folder.samples / "step-000003-00.thumb.jpg").is_file()
    left_out = {"modelspec.thumbnail", "onetrainer_config", "onetrainer_dataset"}
    assert not reported.keys() & {*left_out, "ss_tag_frequency", "ss_bucket_info", "modelspec.date"}


def task(kind, **given):
    """A task with only what the test needs."""
    nothing = {field.name: None for field in fields(kind)} | {"phase": lambda _: nullcontext()}
    return kind(**nothing | given)


def test_only_a_planned_sample_becomes_the_thumbnail(tmp_path):
    section = Sampling(every=2, at_end=False)
    sampling = task(SampleTask, section=section, shots=(1,), steps=5, folder=RunFolder(tmp_path))
    sampling.folder.samples.mkdir()
    for step in (2, 5):
        (sampling.folder.samples / f"step-{step:06d}-00.thumb.jpg").write_bytes(b"jpeg")
    assert [sampling.thumbnail(step) for step in (2, 4, 5)] == [b"jpeg", None, None]


def test_only_the_finished_file_has_a_thumbnail(tmp_path):
    reported = []
    saving = task(
        SaveTask,
        section=Output(),
        folder=RunFolder(tmp_path),
        method=SimpleNamespace(export=lambda path, options: [path]),
        exported=SimpleNamespace(for_files=nullcontext),
        metadata=lambda step, thumbnail: reported.append((step, thumbnail)) or {},
        thumbnail=lambda step: b"jpeg",
    )
    saving.export(3, is_final=False)
    saving.export(6, is_final=True)
    assert reported == [(3, None), (6, b"jpeg")]


def test_the_hashes_are_of_what_stands_behind_the_header(finished):
    data, reported = data_of(finished), metadata_of(finished)
    digest = hashlib.sha256(data[8 + int.from_bytes(data[:8], "little") :]).hexdigest()
    assert reported["modelspec.hash_sha256"] == f"0x{digest}"
    assert reported["sshs_model_hash"] == digest
    assert len(reported["sshs_legacy_hash"]) == 8


def test_the_header_is_plain_utf_8(finished):
    data = data_of(finished)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")].decode("utf-8"))
    assert header["__metadata__"] == metadata_of(finished)
    assert "墨".encode() in data
