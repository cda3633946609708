"""The denoising loss against its formula over diffusers' own parts."""

from dataclasses import replace

import pytest
import torch
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

from modules import seeds
from modules.interfaces import Batch, LatentMoments
from modules.objectives.denoising import Denoising
from onetrainer.config.objectives.denoising import Denoising as Section
from tests import tiny

pytestmark = pytest.mark.usefixtures("few_blocks")

SEED, STEP = 3, 7


@pytest.fixture(scope="module")
def family():
    return tiny.family()


def batch_of(family, positions, weight=0.25):
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(4, 4, 8, 8, generator=generator)[list(positions)]
    std = torch.rand(4, 4, 8, 8, generator=generator)[list(positions)]
    captions = tuple(f"an image of {number}" for number in positions)
    with torch.no_grad():
        conditioning = family.encode_text(captions)
    return Batch(
        moments=LatentMoments(mean, std),
        captions=captions,
        step_captions=captions,
        conditioning=conditioning,
        time_ids=torch.tensor([[64.0, 64.0, 0.0, 0.0, 64.0, 64.0]] * len(positions)),
        positions=tuple(positions),
        weight=weight,
    )


def per_item(family, batch):
    objective = Denoising(family, section=Section(), device=torch.device("cpu"))
    with torch.no_grad():
        return objective.loss(batch, seed=SEED, step=STEP)


def test_the_loss_is_the_mean_squared_error_of_the_noise(family):
    batch = batch_of(family, (0, 1))

    def normal(purpose, position):
        generator = seeds.generator(SEED, purpose, STEP, position)
        return torch.randn(4, 8, 8, generator=generator)

    latent, noise = (torch.stack([normal(name, p) for p in (0, 1)]) for name in ("latent", "noise"))
    timesteps = torch.tensor(
        [
            int(torch.randint(0, 1000, (1,), generator=seeds.generator(SEED, "timestep", STEP, p)))
            for p in (0, 1)
        ]
    )
    scheduler = DDPMScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False
    )
    latents = batch.moments.mean + batch.moments.std * latent
    noisy = scheduler.add_noise(latents, noise, timesteps)
    with torch.no_grad():
        predicted = family.unet(noisy, timesteps, batch.conditioning.hidden).sample
    expected = ((predicted - noise) ** 2).mean(dim=(1, 2, 3))
    loss = per_item(family, batch)
    torch.testing.assert_close(loss.per_item, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(loss.value, expected.sum() * 0.25, rtol=1e-5, atol=1e-6)


def test_an_image_has_the_same_loss_whatever_the_microbatch(family):
    together = per_item(family, batch_of(family, (0, 1, 2, 3)))
    apart = [per_item(family, batch_of(family, pair)) for pair in ((0, 1), (2, 3))]
    torch.testing.assert_close(together.per_item, torch.cat([a.per_item for a in apart]))
    torch.testing.assert_close(together.value, apart[0].value + apart[1].value)


def test_captions_are_encoded_when_nothing_is_cached(family):
    cached = batch_of(family, (0,))
    noise_std = replace(cached, conditioning=None)
    torch.testing.assert_close(per_item(family, noise_std).value, per_item(family, cached).value)


@pytest.mark.parametrize("zero_snr", [False, True])
def test_velocity_is_the_target_of_models_that_predict_it(zero_snr):
    family = tiny.family("sd2", prediction="v_prediction", zero_terminal_snr=zero_snr)
    batch = batch_of(family, (0, 1))
    scheduler = DDPMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        prediction_type="v_prediction",
        rescale_betas_zero_snr=zero_snr,
    )
    drawn = [seeds.generator(SEED, "timestep", STEP, p) for p in (0, 1)]
    timesteps = torch.tensor([int(torch.randint(0, 1000, (1,), generator=g)) for g in drawn])
    latent, noise = (
        torch.stack(
            [torch.randn(4, 8, 8, generator=seeds.generator(SEED, n, STEP, p)) for p in (0, 1)]
        )
        for n in ("latent", "noise")
    )
    latents = batch.moments.mean + batch.moments.std * latent
    noisy = scheduler.add_noise(latents, noise, timesteps)
    with torch.no_grad():
        predicted = family.unet(noisy, timesteps, batch.conditioning.hidden).sample
    wanted = scheduler.get_velocity(latents, noise, timesteps)
    expected = ((predicted - wanted) ** 2).mean(dim=(1, 2, 3))
    torch.testing.assert_close(per_item(family, batch).per_item, expected, rtol=1e-4, atol=1e-5)


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
