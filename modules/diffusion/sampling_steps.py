"""Sampling steps as numbers: coefficients of the latents, the prediction and new noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from torch import Tensor

from modules.diffusion.schedule import ScheduleSettings
from onetrainer.families.spec import Prediction

_OFFSET = 1  # Stable Diffusion's own steps_offset


@dataclass(frozen=True)
class LinearCombination:
    """Coefficients of a linear combination of the latents and the prediction."""

    latents: float
    predicted: float

    def combine(self, latents: Tensor, predicted: Tensor) -> Tensor:
        """Combine latents and prediction, both (B, 4, h, w) and of one dtype."""
        return latents * self.latents + predicted * self.predicted


@dataclass(frozen=True)
class SamplingStep:
    """One step, as float64 numbers.

    timestep: what the network is given. signal, spread: of the latents before the step.
    next_latents: the latents after it, to which noise of the standard deviation `noise_std` is
    added. clean: the predicted latents without noise, x̂₀. noise: the noise that the latents
    contain by the prediction, ε̂.
    """

    timestep: float
    signal: float
    spread: float
    next_latents: LinearCombination
    noise_std: float
    clean: LinearCombination
    noise: LinearCombination

    def next(self, latents: Tensor, predicted: Tensor, noise: Tensor | None) -> Tensor:
        """Compute the latents after the step, (B, 4, h, w), differentiably.

        Args:
            latents: (B, 4, h, w).
            predicted: The UNet's prediction for them.
            noise: Standard normal; None if `noise_std` is 0.
        """
        after = self.next_latents.combine(latents, predicted)
        return after if noise is None else after + self.noise_std * noise


def ddim_steps(
    settings: ScheduleSettings, prediction: Prediction, *, steps: int, eta: float
) -> tuple[SamplingStep, ...]:
    """Return the steps of a trajectory of DDIM, from noise alone to none.

    Timesteps are those of `modules.diffusion.schedulers`: "leading", offset by one, and "trailing"
    with zero terminal SNR; the last step ends at the noise level of the first timestep.
    Source: Song et al. 2021, arXiv:2010.02502, equations 12 and 16.

    Args:
        settings: Of the noise schedule.
        prediction: "epsilon" or "v_prediction".
        steps: Number of steps.
        eta: Fraction of new noise in each step: 0 none, 1 as much as DDPM.
    """
    levels = _levels(settings)
    stride = settings.steps // steps
    made = []
    for timestep in _timesteps(settings, steps):
        level, next_level = levels[timestep], levels[max(timestep - stride, 0)]
        signal, spread = math.sqrt(level), math.sqrt(1 - level)
        clean = (
            LinearCombination(1 / signal, -spread / signal)
            if (prediction == "epsilon")
            else LinearCombination(signal, -spread)
        )
        noise = (0.0, 1.0) if prediction == "epsilon" else (spread, signal)
        noise_std = eta * math.sqrt((1 - next_level) / (1 - level) * (1 - level / next_level))
        made.append(
            _step(
                timestep,
                (signal, spread),
                after=(math.sqrt(next_level), 1 - next_level),
                clean=clean,
                noise=LinearCombination(*noise),
                noise_std=noise_std,
            )
        )
    return tuple(made)


def flow_steps(levels: Sequence[float], *, times: int, eta: float) -> tuple[SamplingStep, ...]:
    """Return the steps of a rectified flow through falling noise levels, the last to no noise.

    Without new noise they are Euler's: Liu et al. 2022, arXiv:2209.03003.

    Args:
        levels: Noise levels that steps start from, falling from 1.
        times: The timestep of noise alone.
        eta: Fraction of new noise in each step: 1 as much as the posterior of the noising has.
    """
    made = []
    for level, after in zip(levels, (*levels[1:], 0.0), strict=True):
        variance = level**2 - ((1 - level) / (1 - after)) ** 2 * after**2
        made.append(
            _step(
                level * times,
                (1 - level, level),
                after=(1 - after, after**2),
                clean=LinearCombination(1.0, -level),
                noise=LinearCombination(1.0, 1 - level),
                noise_std=eta * after / level * math.sqrt(max(variance, 0.0)),
            )
        )
    return tuple(made)


def _step(
    timestep: float,
    now: tuple[float, float],
    *,
    after: tuple[float, float],
    clean: LinearCombination,
    noise: LinearCombination,
    noise_std: float,
) -> SamplingStep:
    """Return a step; now: signal and spread, after: signal and variance."""
    signal, variance = after
    # Negative only by rounding: with eta 1 all noise is new where the latents hold no signal.
    direction = math.sqrt(max(variance - noise_std**2, 0.0))
    next_latents = LinearCombination(
        signal * clean.latents + direction * noise.latents,
        signal * clean.predicted + direction * noise.predicted,
    )
    return SamplingStep(timestep, *now, next_latents, noise_std, clean, noise)


def _levels(settings: ScheduleSettings) -> list[float]:
    """Return ᾱ of each timestep, as `scaled_linear` computes it.

    In plain numbers: its tables are rounded to float32, and reading them waits for a GPU.
    """
    start, end = settings.beta_start**0.5, settings.beta_end**0.5
    roots = [start + (end - start) * n / (settings.steps - 1) for n in range(settings.steps)]
    levels = list(accumulate((1 - root**2 for root in roots), mul))
    if not settings.zero_terminal_snr:
        return levels
    signal = [math.sqrt(level) for level in levels]
    scale = signal[0] / (signal[0] - signal[-1])
    return [((each - signal[-1]) * scale) ** 2 for each in signal]


def _timesteps(settings: ScheduleSettings, steps: int) -> list[int]:
    """Return the timesteps from most to least noisy."""
    count = settings.steps
    if settings.zero_terminal_snr:
        # Rounded like diffusers' numpy ranges: it matters for timesteps that end in a half.
        stride_down = (count - count / steps) - count
        return [round(count + number * stride_down) - 1 for number in range(steps)]
    stride = count // steps
    return [min(number * stride + _OFFSET, count - 1) for number in reversed(range(steps))]
