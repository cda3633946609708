"""DDIM steps as numbers: coefficients of the latents, the prediction and new noise.

Source: Song et al. 2021, arXiv:2010.02502, equations 12 and 16. Timesteps are those of
`modules.sampling.schedulers`: "leading", offset by one, and "trailing" with zero terminal SNR; the
last step ends at the noise level of the first timestep.
"""

import math
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

from torch import Tensor

from modules.diffusion.schedule import ScheduleSettings
from onetrainer.config.run.model import Prediction
from onetrainer.errors import UserError

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
class DdimStep:
    """One step, as float64 numbers.

    signal, spread: sqrt(ᾱ) and sqrt(1 - ᾱ) at the timestep. next_latents: the latents after the
    step, to which noise of the standard deviation `noise_std` is added. clean: the predicted
    latents without noise, x̂₀. noise: the noise that the latents contain by the prediction, ε̂.
    """

    timestep: int
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
) -> tuple[DdimStep, ...]:
    """Return the steps of a trajectory, from noise alone to none.

    Args:
        settings: Of the noise schedule.
        prediction: What the model predicts.
        steps: Number of steps.
        eta: Share of new noise in each step: 0 none, 1 as much as DDPM.

    Raises:
        UserError: Noise prediction with zero terminal SNR, whose first latents hold no signal from
            which anything can be predicted.
    """
    if settings.zero_terminal_snr and prediction == "epsilon":
        raise UserError(
            "a model that predicts noise (epsilon) cannot be sampled with zero terminal SNR",
            "Such models predict velocity (v_prediction)",
            "Set the prediction to v_prediction, or zero terminal SNR to off",
        )
    levels = _levels(settings)
    stride = settings.steps // steps
    return tuple(
        _step(
            timestep,
            level=levels[timestep],
            next_level=levels[max(timestep - stride, 0)],
            prediction=prediction,
            eta=eta,
        )
        for timestep in _timesteps(settings, steps)
    )


def _step(
    timestep: int, *, level: float, next_level: float, prediction: Prediction, eta: float
) -> DdimStep:
    signal, spread = math.sqrt(level), math.sqrt(1 - level)
    match prediction:
        case "epsilon":
            clean, noise = (
                LinearCombination(1 / signal, -spread / signal),
                LinearCombination(0.0, 1.0),
            )
        case "v_prediction":
            clean = LinearCombination(signal, -spread)
            noise = LinearCombination(spread, signal)
    noise_std = eta * math.sqrt((1 - next_level) / (1 - level) * (1 - level / next_level))
    # Negative only by rounding: with eta 1 all noise is new where the latents hold no signal.
    direction = math.sqrt(max(1 - next_level - noise_std**2, 0.0))
    next_latents = LinearCombination(
        math.sqrt(next_level) * clean.latents + direction * noise.latents,
        math.sqrt(next_level) * clean.predicted + direction * noise.predicted,
    )
    return DdimStep(timestep, signal, spread, next_latents, noise_std, clean, noise)


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
