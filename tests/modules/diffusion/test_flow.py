"""Rectified flow against diffusers' scheduler and the straight line that it is."""

from itertools import pairwise

import pytest
import torch
from diffusers.schedulers.scheduling_flow_match_euler_discrete import (
    FlowMatchEulerDiscreteScheduler,
)

from modules.diffusion.flow import rectified_flow
from modules.diffusion.schedulers import FLOW_SAMPLERS, step
from modules.diffusion.weights import weight_table
from onetrainer.config.objectives.weighting import P2, Debiased, MinSnr, NoiseLike, VelocityLike
from onetrainer.errors import UserError
from tests.close import close, near
from tests.each import each

SHIFTS = (1.0, 3.0)
LATENTS, NOISE, PREDICTED = torch.randn(3, 2, 4, 4, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("shift", SHIFTS)
def test_noisy_latents_and_times_equal_those_of_diffusers(shift):
    process, reference = rectified_flow(shift), FlowMatchEulerDiscreteScheduler(shift=shift)
    timesteps = torch.tensor([999, 400])  # diffusers counts from the noisiest
    times = process.network_times(timesteps)
    close(times, reference.timesteps[999 - timesteps])
    expected = reference.scale_noise(LATENTS, reference.timesteps[999 - timesteps], NOISE)
    ours = process.levels.add_noise(LATENTS, NOISE, timesteps)
    close(ours, expected)


def test_the_target_is_the_velocity_along_the_line():
    process, timesteps = rectified_flow(), torch.tensor([100, 700])
    nearer, farther = (
        process.levels.add_noise(LATENTS, NOISE, timesteps + shift) for shift in (0, 100)
    )
    velocity = process.target(LATENTS, NOISE, timesteps)
    torch.testing.assert_close((farther - nearer) / 0.1, velocity, rtol=0, atol=1e-4)


@each("shift", SHIFTS)
@each("count", [1, 2, 7, 30])
def test_each_step_equals_that_of_diffusers(shift, count):
    reference = FlowMatchEulerDiscreteScheduler(shift=shift)
    reference.set_timesteps(count)
    found = rectified_flow(shift).sampling_steps(count, eta=0)
    assert [each.timestep for each in found] == near(reference.timesteps.tolist())
    latents = LATENTS
    for ours, timestep in zip(found, reference.timesteps, strict=True):
        expected = reference.step(PREDICTED, timestep, latents).prev_sample
        latents = ours.next(latents, PREDICTED, None)
        close(latents, expected)


def test_of_the_right_velocity_image_and_noise_are_predicted_exactly():
    velocity = NOISE - LATENTS
    for now in rectified_flow(3.0).sampling_steps(5, eta=0):
        noisy = now.signal * LATENTS + now.spread * NOISE
        close(now.clean.combine(noisy, velocity), LATENTS)
        close(now.noise.combine(noisy, velocity), NOISE)


def test_new_noise_keeps_the_spread_of_latents():
    """Of the right prediction the noise has the next level's variance with any fraction of it."""
    for eta in (0.3, 1.0):
        steps = rectified_flow(3.0).sampling_steps(6, eta=eta)
        for now, after in pairwise(steps):
            kept = now.next_latents.latents * now.spread + now.next_latents.predicted
            assert kept**2 + now.noise_std**2 == near(after.spread**2)
        assert steps[-1].noise_std == 0


@each("name", FLOW_SAMPLERS)
def test_every_sampler_ends_at_the_image_of_a_right_prediction(name):
    scheduler = rectified_flow(3.0).scheduler(name, 20)
    assert len(scheduler.timesteps) == 20
    latents = NOISE.clone()
    for timestep in scheduler.timesteps:
        latents = step(scheduler, NOISE - LATENTS, timestep, latents, [])
    torch.testing.assert_close(latents, LATENTS, rtol=0, atol=2e-3)


def test_other_samplers_are_refused_with_a_message():
    with pytest.raises(UserError, match='"euler"'):
        rectified_flow().scheduler("lcm", 4)


def test_a_mistake_counts_the_same_as_noise_and_as_velocity():
    """The same wrong image of what is in the noisy latents, once as noise and once as velocity."""
    process, timesteps = rectified_flow(3.0), torch.tensor([10, 800])
    noisy = process.levels.add_noise(LATENTS, NOISE, timesteps)
    signal, spread = (
        part[timesteps].view(-1, 1, 1, 1) for part in (process.levels.signal, process.levels.noise)
    )
    image = (noisy - spread * PREDICTED) / signal
    errors = {
        "epsilon": PREDICTED - NOISE,
        "flow": process.target(image, PREDICTED, timesteps)
        - process.target(LATENTS, NOISE, timesteps),
    }
    for section in (Debiased(), NoiseLike(), MinSnr(), P2()):
        as_noise, as_flow = (
            (error**2).mean(dim=(1, 2, 3)) * weight_table(section, process.levels, kind)[timesteps]
            for kind, error in errors.items()
        )
        torch.testing.assert_close(as_noise, as_flow, rtol=1e-4, atol=0)
    plain = weight_table(VelocityLike(strength=0.5), process.levels, "flow")
    close(plain, process.levels.signal**2 + 0.5)
