"""Schedule and targets against diffusers' own."""

import pytest
import torch
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

from modules.diffusion.ddpm import ddpm
from modules.diffusion.schedule import ScheduleSettings
from tests.close import close

TIMESTEPS = torch.tensor([0, 1, 500, 998, 999])


@pytest.fixture
def reference():
    return DDPMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear")


@pytest.fixture
def tensors():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(5, 4, 8, 8, generator=generator) for _ in range(2)]


def test_noisy_latents_equal_those_of_diffusers(reference, tensors):
    latents, noise = tensors
    expected = reference.add_noise(latents, noise, TIMESTEPS)
    ours = ddpm().levels.add_noise(latents, noise, TIMESTEPS)
    # diffusers multiplies its ᾱ up in float32, which costs it some 1e-6.
    close(ours, expected)


def test_velocity_equals_that_of_diffusers(reference, tensors):
    latents, noise = tensors
    expected = reference.get_velocity(latents, noise, TIMESTEPS)
    ours = ddpm(prediction="v_prediction").target(latents, noise, TIMESTEPS)
    close(ours, expected)


def test_the_epsilon_target_is_the_noise(tensors):
    latents, noise = tensors
    assert ddpm().target(latents, noise, TIMESTEPS) is noise


def test_signal_and_noise_add_up_to_one():
    schedule = ddpm().levels
    total = schedule.signal.double() ** 2 + schedule.noise.double() ** 2
    close(total, torch.ones_like(total), dtype=torch.float32)


def test_zero_terminal_snr_is_that_of_diffusers(tensors):
    latents, noise = tensors
    reference = DDPMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        rescale_betas_zero_snr=True,
    )
    schedule = ddpm(ScheduleSettings(zero_terminal_snr=True)).levels
    close(schedule.alphas_cumprod, reference.alphas_cumprod)
    assert schedule.signal[-1] == 0
    assert schedule.noise[-1] == 1
    assert schedule.signal[0] == ddpm().levels.signal[0]
    ours = schedule.add_noise(latents, noise, TIMESTEPS)
    close(ours, reference.add_noise(latents, noise, TIMESTEPS))
