"""The metadata of the files of runs of every method, and which weights they hold."""

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from modules.jobs.train import train
from modules.training.checkpoints import EMA_FILE, WEIGHTS_FILE
from onetrainer.presets.presets import load_document, resolve, with_absolute_paths
from onetrainer.run.run_folder import create_run

pytestmark = pytest.mark.slow

SD1 = "stable-diffusion-v1"
SHORT = {
    "training": {"steps": 2, "batch_size": 2},
    "sampling": {"prompts": [], "every": 0, "at_start": False, "at_end": False},
    "model": {"clip_skip": 2},
}
WORDS = {"embeddings": {"tokens": [{"token": "<w>", "initial_text": "red"}]}}
LOW_RANK = {"rank": 4, "alpha": 2.0}


def finished(config, changes):
    """A finished run of the project with sections changed; those with a kind are replaced."""
    document = load_document(config)
    for name, section in (SHORT | changes).items():
        document[name] = section if "kind" in section else {**document.get(name, {}), **section}
    resolved = with_absolute_paths(resolve(document, source=str(config)))
    document = resolved.model_dump(mode="json")
    folder = create_run(Path(resolved.output.folder), name="run", config=document)
    assert train(folder) == 0
    return folder


def reported(path):
    with safe_open(path, framework="np") as file:
        return file.metadata()


LORA = {"method": {"kind": "lora", **LOW_RANK}}
FULL = {"method": {"kind": "full", "targets": "attn", "weights": "fp32"}}
VAE = {"method": {"kind": "vae"}, "objective": {"kind": "reconstruction"}}
EMBEDDING = {"method": {"kind": "embedding"}, **WORDS}


@pytest.mark.parametrize(
    ("changes", "architecture", "code"),
    [
        (LORA | {"output": {"lora_naming": "comfyui"}}, f"{SD1}/lora", "sgm"),
        (FULL | {"output": {"lora_naming": "diffusers"}}, SD1, "sgm"),
        (VAE, f"{SD1}/vae", "sgm"),
        (EMBEDDING | {"output": {"lora_naming": "diffusers"}}, f"{SD1}/textual-inversion", "sgm"),
    ],
)
def test_every_methods_file_says_what_it_is_and_whose_names_it_has(
    config, changes, architecture, code
):
    fields = reported(finished(config, changes).output / "my-lora.safetensors")
    assert fields["modelspec.architecture"] == architecture
    assert fields["modelspec.implementation"] == code
    # A VAE predicts no noise and reads no prompt.
    reads = not architecture.endswith("/vae")
    assert fields.get("modelspec.prediction_type") == ("epsilon" if reads else None)
    assert fields.get("modelspec.encoder_layer") == ("2" if reads else None)


def test_an_embedding_trained_with_a_lora_is_a_file_of_its_own_kind(config):
    output = finished(config, LORA | WORDS | {"output": {"lora_naming": "diffusers"}}).output
    fields = [reported(output / name) for name in ("my-lora.safetensors", "my-lora-w.safetensors")]
    assert [field["modelspec.architecture"] for field in fields] == [
        f"{SD1}/lora",
        f"{SD1}/textual-inversion",
    ]
    assert [field["modelspec.implementation"] for field in fields] == ["diffusers", "sgm"]


@pytest.mark.parametrize(("kind", "place"), [("full", "device"), ("vae", "host")])
def test_the_file_of_bf16_weights_holds_their_average_in_float32(config, kind, place):
    base = FULL if kind == "full" else VAE
    changes = base | {
        "method": {**base["method"], "weights": "bf16"},
        "ema": {"use": True, "device": place},
        "output": {"precision": "fp32", "model_format": "diffusers", "save_every": 2},
    }
    folder = finished(config, changes)
    average = load_file(folder.checkpoint(2) / EMA_FILE)
    weights = load_file(folder.checkpoint(2) / WEIGHTS_FILE)
    part = "unet" if kind == "full" else "vae"
    inside = "" if kind == "vae" else "unet"
    file = folder.output / "my-lora" / inside / "diffusion_pytorch_model.safetensors"
    written = load_file(file)
    # A folder has metadata in its configs alone.
    assert reported(file) == {"format": "pt"}
    assert file.with_name("config.json").is_file()
    for name, expected in average.items():
        assert weights[name].dtype == torch.bfloat16
        assert torch.equal(written[name.removeprefix(f"{part}.")], expected)
    assert any(not torch.equal(own, own.bfloat16().float()) for own in average.values())
