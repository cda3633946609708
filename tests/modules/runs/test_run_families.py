"""Files of whole runs, loaded by diffusers' pipelines."""

import json

import pytest
import torch
from diffusers import DDIMScheduler, StableDiffusionPipeline, StableDiffusionXLPipeline
from safetensors import safe_open

from modules.jobs.train import train
from tests import runs, tiny

pytestmark = pytest.mark.slow

BASES = {
    "sd2": ("sd_v2_v", "stable-diffusion-v2-768-v/lora", "v"),
    "sdxl": ("sdxl_base_v1-0", "stable-diffusion-xl-v1-base/lora", "epsilon"),
}


def project(folder, name):
    """A config for a tiny model of the family."""
    v = {"prediction": "v_prediction", "zero_terminal_snr": True} if name == "sd2" else {}
    tiny.write_folder(folder / "base", name=name, **v)
    tiny.write_images(folder / "pictures", ("a red square", "many words " * 60, "green", "night"))
    document = runs.SETTINGS | {
        "model": {"path": "base", "family": name},
        "training": {"steps": 2, "batch_size": 2, "seed": 5},
        "method": {"rank": 4, "alpha": 4.0, **tiny.encoders(True)},
        "sampling": {},
    }
    (folder / "config.json").write_text(json.dumps(document))
    return folder / "config.json"


@pytest.mark.parametrize(
    ("name", "pipeline"), [("sd2", StableDiffusionPipeline), ("sdxl", StableDiffusionXLPipeline)]
)
def test_the_trained_file_names_its_base_and_moves_the_diffusers_pipeline(tmp_path, name, pipeline):
    done = runs.new_run(project(tmp_path, name))
    assert train(done) == 0
    with safe_open(done.output / "my-lora.safetensors", "pt") as file:
        said = file.metadata()
    keys = ("ss_base_model_version", "modelspec.architecture", "modelspec.prediction_type")
    assert tuple(said[key] for key in keys) == BASES[name]
    pipe = pipeline.from_pretrained(tmp_path / "base", local_files_only=True)
    pipe.scheduler = DDIMScheduler.from_config(pipe.scheduler.config)
    pipe.set_progress_bar_config(disable=True)

    def sample():
        return pipe(
            "a red square",
            width=64,
            height=64,
            num_inference_steps=2,
            generator=torch.Generator().manual_seed(0),
            output_type="pt",
        ).images

    before = sample()
    pipe.load_lora_weights(done.output / "my-lora.safetensors")
    assert (sample() - before).abs().max() > 1e-3
