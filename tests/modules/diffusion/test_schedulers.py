from typing import get_args

import pytest
import torch

from modules.diffusion.ddpm import ddpm
from modules.diffusion.schedule import ScheduleSettings, scaled_linear
from modules.diffusion.schedulers import step
from onetrainer.config.run.sampling import SamplerName
from onetrainer.errors import UserError
from tests.close import close
from tests.each import each

SAMPLERS = get_args(SamplerName)
ZERO = ScheduleSettings(zero_terminal_snr=True)


def scheduler(name, steps, settings=None, prediction="v_prediction"):
    return ddpm(settings, prediction).scheduler(name, steps)


def walk(made):
    """An image of a model that predicts a tenth of what it sees."""
    generator = torch.Generator().manual_seed(0)
    latents = torch.randn(1, 4, 4, 4, generator=generator) * made.init_noise_sigma
    for timestep in made.timesteps:
        predicted = made.scale_model_input(latents, timestep) / 10
        latents = step(made, predicted, timestep, latents, [generator])
    return latents


@each("settings", [ScheduleSettings(), ZERO], ids=["usual", "zero snr"])
@each("name", SAMPLERS)
def test_every_number_of_steps_is_made_and_stays_finite(name, settings):
    most = {"lcm": 50, "unipc": 999}.get(name, 1000)
    for steps in {1, 2, 3, 4, 7, 13, 20, 49, 50, min(333, most), most}:
        made = scheduler(name, steps, settings)
        assert len(made.timesteps) == steps
        assert 0 <= made.timesteps.min() <= made.timesteps.max() <= 999
        if steps <= 50:
            assert walk(made).isfinite().all(), steps


@each("name", SAMPLERS)
def test_zero_terminal_snr_begins_at_noise_alone(name):
    for steps in (1, 2, 7, 20, 30, 50):
        assert scheduler(name, steps, ZERO).timesteps[0] == 999, steps


@each("name", SAMPLERS)
def test_the_tables_are_those_that_training_uses(name):
    for settings in (ScheduleSettings(beta_start=0.001, beta_end=0.02, steps=500), ZERO):
        ours = scaled_linear(settings).alphas_cumprod
        theirs = scheduler(name, 10, settings).alphas_cumprod
        close(theirs, ours)


@each("name", SAMPLERS)
def test_noise_prediction_with_zero_terminal_snr_is_refused(name):
    with pytest.raises(UserError, match="v_prediction"):
        scheduler(name, 10, ZERO, "epsilon")


@pytest.mark.parametrize(("name", "steps"), [("lcm", 51), ("unipc", 1000)])
def test_more_steps_than_a_sampler_has_are_refused(name, steps):
    with pytest.raises(UserError, match="at most"):
        scheduler(name, steps)


def k_diffusion_sigmas(steps):
    """Evenly from timestep 999 to 0, then 0. Source: crowsonkb/k-diffusion, `get_sigmas`."""
    table = scaled_linear(ScheduleSettings())
    all_sigmas = (table.noise.double() / table.signal.double()).log()
    positions = torch.linspace(999, 0, steps, dtype=torch.float64)
    low = positions.floor().long().clamp(max=998)
    fraction = positions - low
    between = (1 - fraction) * all_sigmas[low] + fraction * all_sigmas[low + 1]
    return torch.cat([between.exp(), torch.zeros(1)])


@each("name", ["euler", "euler_a", "dpmpp_2m", "dpmpp_2m_sde"])
def test_noise_levels_are_those_of_k_diffusion(name):
    # DPM++ has whole timesteps here, half a timestep off at most: 0.4 % of sigma.
    sigmas = scheduler(name, 20).sigmas.double()
    torch.testing.assert_close(sigmas, k_diffusion_sigmas(20), rtol=5e-3, atol=0)


def test_karras_noise_levels_are_the_papers():
    first, last = 14.6146, 0.0292  # of Stable Diffusion's schedule
    ramp = torch.linspace(0, 1, 12, dtype=torch.float64)
    inverse = first ** (1 / 7) + ramp * (last ** (1 / 7) - first ** (1 / 7))
    expected = torch.cat([inverse**7, torch.zeros(1)])
    ours = scheduler("dpmpp_2m_karras", 12).sigmas.double()
    torch.testing.assert_close(ours, expected, rtol=2e-3, atol=0)


def test_dpmpp_2m_is_the_published_formula():
    """Lu et al. 2022, arXiv:2211.01095, algorithm 2, in k-diffusion's terms: x / sqrt(ᾱ)."""
    made = scheduler("dpmpp_2m", 8, prediction="epsilon")
    sigmas, generator = made.sigmas.double(), torch.Generator().manual_seed(0)
    start = torch.randn(1, 4, 4, 4, generator=generator)
    latents, x, before = start, start.double() * (1 + sigmas[0] ** 2) ** 0.5, None
    for index, timestep in enumerate(made.timesteps):
        noise = torch.randn(1, 4, 4, 4, generator=generator)
        latents = step(made, noise, timestep, latents, [generator])
        now, next_latents = sigmas[index], sigmas[index + 1]
        clean = x - now * noise
        corrected = clean
        if before is not None and next_latents > 0:
            ratio = (sigmas[index - 1] / now).log() / (now / next_latents).log()
            corrected = clean + (clean - before) / (2 * ratio)
        x = next_latents / now * x + (1 - next_latents / now) * corrected
        before = clean
    torch.testing.assert_close(latents.double(), x, rtol=1e-4, atol=1e-4)
