"""Weights of timesteps against the papers' formulas over diffusers' own ratios."""

from functools import partial
from typing import get_args

import torch
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler
from diffusers.training_utils import compute_snr

from modules.diffusion.ddpm import ddpm
from modules.diffusion.schedule import NoiseLevels, ScheduleSettings, scaled_linear
from modules.diffusion.weights import weight_table
from onetrainer.config.objectives.weighting import (
    P2,
    Debiased,
    DebiasedOther,
    MinSnr,
    NoiseLike,
    VelocityLike,
    Weighting,
)
from onetrainer.schedules.loss_weights import weight_curve
from tests.close import close, near
from tests.each import each

EVERY = torch.arange(1000)
WEIGHTINGS = {
    "min_snr": partial(weight_table, MinSnr(gamma=5.0)),
    "debiased": partial(weight_table, Debiased()),
    "debiased_other": partial(weight_table, DebiasedOther()),
    "p2": partial(weight_table, P2(exponent=1.0, k=1.0)),
    "velocity_like": partial(weight_table, VelocityLike(strength=0.5)),
    "noise_like": partial(weight_table, NoiseLike()),
}
# Each as its paper has it, for noise and for velocity, of the ratio of signal to noise.
FORMULAS = {
    "min_snr": (lambda r: r.clamp(max=5) / r, lambda r: r.clamp(max=5) / (r + 1)),
    "debiased": (lambda r: 1 / r.clamp(min=1e-3).sqrt(), lambda r: r.sqrt() / (r + 1)),
    "debiased_other": (
        lambda r: 1 / r.clamp(min=1e-3, max=1000).sqrt(),
        lambda r: 1 / (r.clamp(max=1000) + 1),
    ),
    "p2": (lambda r: 1 / (1 + r), lambda r: r / (1 + r) ** 2),
    "velocity_like": (
        lambda r: 1 + 0.5 * (1 + 1 / r.clamp(min=1e-3)),
        lambda r: r / (r + 1) + 0.5,
    ),
    "noise_like": (torch.ones_like, lambda r: r / (r + 1)),
}
# What they become for noise alone and for signal alone.
LIMITS = {
    "min_snr": ((1, 0), (0, 0)),
    "debiased": ((1000**0.5, 0), (0, 0)),
    "debiased_other": ((1000**0.5, 1000**-0.5), (1, 1 / 1001)),
    "p2": ((1, 0), (0, 0)),
    "velocity_like": ((1 + 0.5 * 1001, 1.5), (0.5, 1.5)),
    "noise_like": ((1, 1), (0, 1)),
}
PREDICTIONS = ("epsilon", "v_prediction")


def ratios(zero_snr):
    scheduler = DDPMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        rescale_betas_zero_snr=zero_snr,
    )
    return compute_snr(scheduler, EVERY)


def schedule(zero_snr):
    return scaled_linear(ScheduleSettings(zero_terminal_snr=zero_snr))


@each("zero_snr", [False, True])
@each("prediction", PREDICTIONS)
@each("name", WEIGHTINGS)
def test_weights_are_the_papers_and_finite(name, prediction, zero_snr):
    ours = WEIGHTINGS[name](schedule(zero_snr), prediction)
    assert ours.dtype == torch.float32
    assert ours.isfinite().all()
    assert (ours >= 0).all()
    ratio = ratios(zero_snr).double()
    expected = FORMULAS[name][PREDICTIONS.index(prediction)](ratio).float()
    known = ratio > 0  # the formulas divide by it
    close(ours[known], expected[known])


@each("name", WEIGHTINGS)
def test_weights_are_finite_for_noise_alone_and_for_signal_alone(name):
    ends = NoiseLevels(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0]))
    for prediction, limits in zip(PREDICTIONS, LIMITS[name], strict=True):
        assert WEIGHTINGS[name](ends, prediction).tolist() == near(limits)


@each("section", get_args(get_args(Weighting)[0]))
def test_each_weighting_says_whether_it_trains_pure_noise(section):
    table = weight_table(section(), schedule(zero_snr=True), "v_prediction")
    assert (table is None or bool(table[-1] > 0)) is section.trains_pure_noise
    curve = weight_curve(section(), is_noise=False, zero_terminal_snr=True)
    assert table is None or (torch.tensor(curve) - table).abs().max() < 1e-3


@each("name", sorted(WEIGHTINGS.keys() - {"debiased_other"}))
def test_a_mistake_counts_the_same_as_noise_and_as_velocity(name):
    """The same wrong image of what is in x_t, once as ε and once as v."""
    table = schedule(zero_snr=False)
    generator = torch.Generator().manual_seed(0)
    latents, noise, guess = torch.randn(3, 5, 4, 8, 8, generator=generator, dtype=torch.float64)
    timesteps = torch.tensor([0, 10, 400, 800, 999])
    noisy = table.add_noise(latents, noise, timesteps)
    signal, spread = (part[timesteps].view(-1, 1, 1, 1) for part in (table.signal, table.noise))
    guessed_latents = (noisy - spread * guess) / signal
    losses = []
    for prediction in PREDICTIONS:
        wanted, predicted = (
            ddpm(prediction=prediction).target(one, other, timesteps)
            for one, other in ((latents, noise), (guessed_latents, guess))
        )
        error = ((wanted - predicted) ** 2).mean(dim=(1, 2, 3))
        losses.append(error * WEIGHTINGS[name](table, prediction)[timesteps])
    # The tables of levels are float32.
    close(losses[0], losses[1], each=True, dtype=torch.float32)
