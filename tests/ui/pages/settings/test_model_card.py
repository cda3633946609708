"""The summary card of a base model, next to the settings."""

import json
from pathlib import Path

import pytest

from onetrainer.model_files.kinds import ModelFile
from tests.ui.project import MARKERS, SDXL_PARTS, write_model
from ui.pages.settings.model_card import facts, lines_of


def test_a_model_file_is_described_with_all_known_facts(tmp_path):
    path = write_model(tmp_path / "xl.safetensors", {**SDXL_PARTS, **MARKERS})
    assert lines_of(str(path), is_offline=False) == [
        "xl.safetensors",
        "This is an SDXL model.",
        "Predicts velocity (v-prediction)",
        "Zero terminal SNR: yes",
        "Precision: fp32",
        "Single file, 12.9 GB",
    ]


def test_an_adapter_is_described_as_what_it_is(tmp_path):
    model = ModelFile(tmp_path, "folder", "lora", made_for="sdxl", missing=("UNet", "VAE", "CLIP"))
    lines = facts(model)
    assert lines[:2] == ["This is a LoRA, not a complete model.", "Made for SDXL"]
    assert "Missing: UNet, VAE and CLIP" in lines


@pytest.mark.parametrize(
    ("is_offline", "words"),
    [
        (False, "It will be downloaded from the Hugging Face Hub when training starts."),
        (True, "Turn off “Offline” to download it."),
    ],
)
def test_a_name_on_the_hub_is_no_path(monkeypatch, tmp_path, is_offline, words):
    monkeypatch.setattr("onetrainer.model_files.hub.cached_folder", lambda name: None)
    monkeypatch.chdir(tmp_path)
    name, about = lines_of("models/xl", is_offline=is_offline)
    assert (name, about) == ("models/xl", f"Not on this computer. {words}")


def test_a_downloaded_model_is_inspected(monkeypatch, tmp_path):
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": "FluxPipeline"}))
    monkeypatch.setattr("onetrainer.model_files.hub.cached_folder", lambda name: tmp_path)
    lines = lines_of("black-forest-labs/flux", is_offline=True)
    assert lines[0] == "From the Hugging Face Hub, already downloaded."
    assert "This is a Flux model." in lines


def test_unreadable_files_are_reported(tmp_path):
    (tmp_path / "cut.safetensors").write_bytes(b"cut")
    for text in (str(tmp_path / "cut.safetensors"), str(tmp_path / "gone"), "~nobody-here/x.ckpt"):
        lines = lines_of(text, is_offline=False)
        assert Path(text).name in lines[0] or text in lines[0]
        assert lines[0].endswith(".")
