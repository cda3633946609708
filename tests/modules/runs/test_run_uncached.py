"""Runs that keep no latents and no captions train the same, encoding again in every step."""

import torch
from safetensors.torch import load_file

from modules.jobs.train import train
from tests import runs

SETTINGS = {
    # One image at a time: several captions at once are rounded otherwise.
    "training": {"steps": 4, "batch_size": 1},
    "sampling": {"every": 2},
    "hardware": {"precision": "fp32", "threads": 1},
}


def weights(config, **data):
    folder = runs.new_run(config, **SETTINGS, data=data)
    assert train(folder) == 0
    return load_file(folder.output / "my-lora.safetensors")


def test_a_run_without_a_cache_equals_one_with_it(config):
    kept, uncached = weights(config), weights(config, cache_latents=False, cache_text=False)
    assert any(bool(tensor.any()) for name, tensor in kept.items() if ".lora_up." in name)
    assert all(torch.equal(uncached[name], tensor) for name, tensor in kept.items())
