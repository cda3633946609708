"""Circular padding: what is computed of a shifted image is the shifted result, and only then."""

import pytest
import torch

from modules.families.circular_padding import is_circular, pad_circularly
from modules.families.registry import load_family
from modules.forecast.model import build_model
from modules.methods.adapters.adapters import Adapters
from onetrainer.config.run.model import Model
from onetrainer.config.train import TrainConfig
from tests import tiny
from tests.adapters import KINDS, section, shake
from tests.batches import time_ids_of
from tests.cases import cases

SHIFT = 8  # latents; a UNet halves them three times
TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}


def predict(family, noisy):
    with torch.no_grad():
        text = family.encode_text(["a wall"])
        return family.predict(noisy, torch.tensor([500]), text, time_ids=time_ids_of(1))


def shifted(x, by):
    return x.roll((by, -by), dims=(-2, -1))


@pytest.mark.parametrize("kind", cases(KINDS, ["lora", "lokr"]))
def test_a_shifted_image_gives_the_shifted_prediction_with_adapters_too(kind):
    family = tiny.family()
    pad_circularly(family.unet)
    shake(Adapters.attach(family, section(kind, targets="full"), seed=0))
    noisy = torch.randn(1, 4, 16, 24, generator=torch.Generator().manual_seed(3))
    expected = shifted(predict(family, noisy), SHIFT)
    torch.testing.assert_close(predict(family, shifted(noisy, SHIFT)), expected, **TOLERANCE)


def test_a_shifted_image_gives_shifted_latents_and_back_and_only_so():
    draws = torch.Generator().manual_seed(3)
    latents, pixels = torch.randn(1, 4, 8, 16, generator=draws), torch.rand(1, 3, 64, 128)
    for is_on in (True, False):
        family = tiny.family()
        if is_on:
            pad_circularly(family.vae)
        decoded, encoded = family.decode_latents(latents), family.encode_images(pixels).mean
        errors = [
            family.decode_latents(shifted(latents, 1)) - shifted(decoded, 8),
            family.encode_images(shifted(pixels, 8)).mean - shifted(encoded, 1),
        ]
        assert all((error.abs().max() < 1e-4) == is_on for error in errors)
        assert ("circular" in family.encoder_settings()[0]) == is_on  # the cache's key


def test_a_config_asks_for_it(tmp_path):
    model = Model(path=str(tiny.write_folder(tmp_path / "base")), circular_padding=True)
    family = load_family(model, compute_dtype=torch.float32, device=tiny.CPU)
    assert is_circular(family.unet) and is_circular(family.vae)
    with build_model(TrainConfig(model=model), "cuda") as built:
        assert is_circular(built.attached.family.unet)
