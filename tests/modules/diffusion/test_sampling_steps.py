"""DDIM's numbers against diffusers' scheduler as the samplers set it up."""

import pytest
import torch

from modules.diffusion.ddpm import ddpm
from modules.diffusion.sampling_steps import ddim_steps
from modules.diffusion.schedule import ScheduleSettings, at
from onetrainer.errors import UserError
from tests import exact
from tests.close import close, near
from tests.each import each

PLAIN, ZERO_SNR = ScheduleSettings(), ScheduleSettings(zero_terminal_snr=True)
KINDS = [(PLAIN, "epsilon"), (PLAIN, "v_prediction"), (ZERO_SNR, "v_prediction")]


@each(("settings", "prediction"), KINDS)
def test_timesteps_are_those_of_the_sampler(settings, prediction):
    for steps in [*range(1, 201), 250, 500, 1000]:
        found = [step.timestep for step in ddim_steps(settings, prediction, steps=steps, eta=0)]
        expected = exact.scheduler(settings, prediction, steps=steps).timesteps.tolist()
        # numpy's range has one too many for some numbers, such as 61, through rounding.
        assert found == expected[:steps]
        assert len(found) == steps


@each(("settings", "prediction"), KINDS)
@each("eta", [0.0, 0.4, 1.0])
def test_each_step_equals_that_of_diffusers(settings, prediction, eta):
    if settings.zero_terminal_snr:
        eta = min(eta, 0.999)  # with 1 diffusers takes a root of -1e-16 in the first step
    generator = torch.Generator().manual_seed(0)
    latents, predicted, noise = torch.randn(3, 1, 4, 2, 2, generator=generator, dtype=torch.float64)
    for steps in (1, 7, 20, 1000):
        scheduler = exact.scheduler(settings, prediction, steps=steps)
        for step in ddim_steps(settings, prediction, steps=steps, eta=eta)[:: max(1, steps // 20)]:
            expected = scheduler.step(
                predicted, step.timestep, latents, eta=eta, variance_noise=noise
            )
            found = step.next(latents, predicted, noise if step.noise_std else None)
            close(found, expected.prev_sample)
            clean = step.clean.combine(latents, predicted)
            close(clean, expected.pred_original_sample)


@each(("settings", "prediction"), KINDS)
def test_of_the_right_prediction_image_and_noise_are_predicted_exactly(settings, prediction):
    process = ddpm(settings, prediction)
    schedule = process.levels
    image, noise = torch.randn(2, 1, 4, 2, 2, generator=torch.Generator().manual_seed(1))
    for step in ddim_steps(settings, prediction, steps=10, eta=0):
        timesteps = torch.tensor([step.timestep])
        noisy = schedule.add_noise(image, noise, timesteps)
        assert (step.signal, step.spread) == near(
            (float(at(schedule.signal, timesteps)), float(at(schedule.noise, timesteps)))
        )
        wanted = process.target(image, noise, timesteps)
        assert torch.allclose(step.clean.combine(noisy, wanted), image, atol=1e-4)
        close(step.noise.combine(noisy, wanted), noise)


def test_noise_cannot_be_predicted_where_there_is_nothing_else():
    with pytest.raises(UserError, match="zero terminal SNR"):
        ddpm(ZERO_SNR, "epsilon").sampling_steps(10, eta=0)


def test_the_first_step_from_nothing_but_noise_is_new_noise_and_the_predicted_image():
    step = ddim_steps(ZERO_SNR, "v_prediction", steps=10, eta=1)[0]
    latents, predicted, noise = torch.randn(3, 1, 4, 2, 2, generator=torch.Generator())
    expected = step.next_latents.predicted * predicted + step.noise_std * noise
    assert step.next_latents.latents == near(0, of=1.0)
    close(step.next(latents, predicted, noise), expected)
