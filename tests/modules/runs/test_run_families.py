"""Whole runs of every family: trained, sampled, resumed, and the file loaded elsewhere."""

import json
import shutil

import pytest
import torch
from diffusers import DDIMScheduler, StableDiffusionPipeline, StableDiffusionXLPipeline
from PIL import Image
from safetensors import safe_open

from modules.jobs.train import train
from onetrainer.run.events import Finished, Progress, Sample, Started
from onetrainer.run.run_folder import RunFolder
from tests import runs, tiny
from tests.least_model import write_least_weights

pytestmark = pytest.mark.slow

STEPS = 2


def project(folder, name, **settings):
    """A config for a tiny model of the family, whose runs keep both of their checkpoints."""
    folder.mkdir()
    v = {"prediction": "v_prediction", "zero_terminal_snr": True} if name == "sd2" else {}
    tiny.write_folder(folder / "base", name=name, **v)
    write_least_weights(folder / "base")
    captions = ("a red square", "many words " * 60, "green", "night")
    tiny.write_images(folder / "pictures", captions)
    document = runs.SETTINGS | {
        "model": {"path": "base", "family": name},
        "training": {"steps": STEPS, "batch_size": 2, "seed": 5},
        "output": {**runs.SETTINGS["output"], "save_every": 1, "keep_checkpoints": 9},
        **settings,
    }
    (folder / "config.json").write_text(json.dumps(document))
    return folder / "config.json"


def resumed(done: RunFolder, config):
    """The second half of a run again, from its first checkpoint."""
    folder = runs.new_run(config)
    half = folder.checkpoint(1)
    half.parent.mkdir(exist_ok=True)
    shutil.copytree(done.checkpoint(1), half)
    shutil.copy(done.events, folder.events)
    assert train(folder) == 0
    return folder


def output(folder):
    return (folder.output / "my-lora.safetensors").read_bytes()


FEW = (("sd2", True), ("sdxl-inpainting", False))
EVERY = tuple((name, with_text) for name in tiny.FAMILIES for with_text in (False, True))
IN_LONG = [pytest.param(*pair, marks=pytest.mark.long) for pair in EVERY if pair not in FEW]


@pytest.mark.parametrize(("name", "with_text"), [*FEW, *IN_LONG])
def test_every_family_trains_samples_and_resumes_exactly(tmp_path, name, with_text):
    method = {"rank": 4, "alpha": 2.0, **tiny.encoders(with_text)}
    config = project(tmp_path / "p", name, method=method)
    done = runs.new_run(config)
    assert train(done) == 0
    events = runs.events_of(done)
    assert [e.step for e in events if isinstance(e, Progress)] == [1, 2]
    assert isinstance(events[-1], Finished)
    images = [done.path / e.path for e in events if isinstance(e, Sample)]
    assert len(images) == 2
    for path in images:
        with Image.open(path) as image:
            assert image.size == (64, 64)
    again = resumed(done, config)
    assert [e.step for e in runs.events_of(again) if isinstance(e, Started)] == [0, 1]
    assert output(again) == output(done)


@pytest.mark.parametrize(
    ("name", "pipeline"), [("sd2", StableDiffusionPipeline), ("sdxl", StableDiffusionXLPipeline)]
)
def test_the_trained_file_moves_the_diffusers_pipeline(tmp_path, name, pipeline):
    method = {"rank": 4, "alpha": 4.0, **tiny.encoders(True)}
    config = project(tmp_path / "p", name, method=method)
    done = runs.new_run(config)
    assert train(done) == 0
    pipe = pipeline.from_pretrained(tmp_path / "p" / "base", local_files_only=True)
    pipe.scheduler = DDIMScheduler.from_config(pipe.scheduler.config)
    pipe.set_progress_bar_config(disable=True)

    def draw():
        return pipe(
            "a red square",
            width=64,
            height=64,
            num_inference_steps=2,
            generator=torch.Generator().manual_seed(0),
            output_type="pt",
        ).images

    before = draw()
    pipe.load_lora_weights(done.output / "my-lora.safetensors")
    assert (draw() - before).abs().max() > 1e-3


def test_what_the_file_says_of_its_base(tmp_path):
    expected = {
        "sd15": ("sd_v1", "stable-diffusion-v1/lora", "epsilon"),
        "sd2": ("sd_v2_v", "stable-diffusion-v2-768-v/lora", "v"),
        "sdxl": ("sdxl_base_v1-0", "stable-diffusion-xl-v1-base/lora", "epsilon"),
    }
    for name, words in expected.items():
        done = runs.new_run(project(tmp_path / name, name))
        assert train(done) == 0
        with safe_open(done.output / "my-lora.safetensors", "pt") as file:
            said = file.metadata()
        keys = ("ss_base_model_version", "modelspec.architecture", "modelspec.prediction_type")
        assert tuple(said[key] for key in keys) == words
