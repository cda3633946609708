"""The script that makes the base model runs from the first image to a complete folder."""

import pytest
import torch

from modules.demo import autoencoder
from modules.demo.denoiser import BATCH
from modules.demo.optimize import one_cycle, to_pixels
from modules.demo.train_base import load_or_train_autoencoder, train_denoiser
from onetrainer.demo.images import Scene, draw
from tests.demo_check import open_base


@pytest.mark.long
def test_one_step_of_each_stage_gives_a_complete_model(tmp_path):
    vae = load_or_train_autoencoder(tmp_path / "vae", steps=1, seed=0, polish_steps=1)
    train_denoiser(tmp_path / "base", vae, steps=1, seed=0, scenes=BATCH)

    pipeline = open_base(tmp_path / "base")
    assert pipeline.vae.config.scaling_factor != 0.18215
    assert not list(tmp_path.glob("*.part"))


def test_untrained_autoencoder_already_shows_colors():
    image = draw(Scene("square", "red", "blue", "big"))
    with torch.no_grad():
        vae = autoencoder.build()
        restored = vae.decode(vae.encode(to_pixels([image])).latent_dist.mean).sample

    red, _, blue = restored[0, :, 64, 64]
    assert red > 0.2 > blue


def test_pixels_of_an_image_are_its_bytes_from_minus_one_to_one():
    image = draw(Scene("star", "orange", "night"))

    pixels = (to_pixels([image])[0].permute(1, 2, 0) + 1) * 127.5
    assert pixels.round().byte().numpy().tobytes() == image.tobytes()


def test_rate_rises_holds_and_falls():
    assert one_cycle(0, 1000) < 0.1
    assert one_cycle(300, 1000) == 1
    assert one_cycle(999, 1000) == pytest.approx(0.01, abs=0.001)
