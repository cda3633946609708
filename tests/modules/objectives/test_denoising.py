"""The denoising loss against its formula over diffusers' own parts."""

from dataclasses import replace

import pytest
import torch
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

from modules.objectives.denoising import Denoising
from onetrainer.config.objectives.denoising import Denoising as Section
from tests import tiny
from tests.batches import SEED, STEP, batch_of, loss_of, standard_noise, timesteps_of
from tests.close import close
from tests.each import each


@pytest.fixture(scope="module")
def family():
    return tiny.family()


def per_item(family, batch):
    objective = Denoising(family, section=Section(), device=torch.device("cpu"))
    with torch.no_grad():
        return loss_of(objective, batch, seed=SEED, step=STEP)


@each(
    ("name", "prediction", "zero_snr"),
    [
        ("sd15", "epsilon", False),
        ("sd2", "v_prediction", False),
        ("sd2", "v_prediction", True),
    ],
)
def test_the_loss_is_the_mean_squared_error_of_what_the_model_predicts(name, prediction, zero_snr):
    family = tiny.family(name, prediction=prediction, zero_terminal_snr=zero_snr)
    batch = batch_of(family, (0, 1))
    latent, noise = standard_noise("latent", (0, 1)), standard_noise("noise", (0, 1))
    timesteps = timesteps_of((0, 1))
    scheduler = DDPMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        prediction_type=prediction,
        rescale_betas_zero_snr=zero_snr,
    )
    latents = batch.moments.mean + batch.moments.std * latent
    noisy = scheduler.add_noise(latents, noise, timesteps)
    velocity = scheduler.get_velocity(latents, noise, timesteps)
    with torch.no_grad():
        predicted = family.unet(noisy, timesteps, batch.conditioning.hidden).sample
    wanted = noise if prediction == "epsilon" else velocity
    expected = ((predicted - wanted) ** 2).mean(dim=(1, 2, 3))
    loss = per_item(family, batch)
    close(loss.per_item, expected)
    close(loss.value, expected.sum() * 0.25)


def test_an_image_has_the_same_loss_in_any_microbatch(family):
    together = per_item(family, batch_of(family, (0, 1, 2, 3)))
    apart = [per_item(family, batch_of(family, pair)) for pair in ((0, 1), (2, 3))]
    close(together.per_item, torch.cat([a.per_item for a in apart]))
    close(together.value, apart[0].value + apart[1].value)


def test_captions_are_encoded_when_nothing_is_cached(family):
    cached = batch_of(family, (0,))
    uncached = replace(cached, conditioning=None)
    close(per_item(family, uncached).value, per_item(family, cached).value)


def test_sdxl_gets_sizes_and_pooled_text():
    family = tiny.family("sdxl")
    batch = batch_of(family, (0, 1))
    moved = replace(batch, time_ids=batch.time_ids + 500)
    silent = replace(
        batch,
        conditioning=replace(
            batch.conditioning, pooled=torch.zeros_like(batch.conditioning.pooled)
        ),
    )
    plain = per_item(family, batch).value
    assert not torch.equal(per_item(family, moved).value, plain)
    assert not torch.equal(per_item(family, silent).value, plain)
