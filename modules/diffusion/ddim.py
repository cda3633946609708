"""DDIM as numbers: what each step makes of latents, a prediction and new noise.

Source: Song et al. 2021, arXiv:2010.02502, equations 12 and 16. Timesteps are those of
`modules.sampling.schedulers`: "leading", offset by one, and "trailing" with zero terminal SNR; the
last step ends at the noise of the first timestep.
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
class Parts:
    """How much of the latents and of the prediction a result holds."""

    latents: float
    predicted: float

    def of(self, latents: Tensor, predicted: Tensor) -> Tensor:
        """latents, predicted: (B, 4, h, w), of one dtype, which the result has too."""
        return latents * self.latents + predicted * self.predicted


@dataclass(frozen=True)
class DdimStep:
    """One step, as float64 numbers.

    signal, spread: sqrt(ᾱ) and sqrt(1 - ᾱ) at the timestep. following: of the latents after the
    step, to which noise of the deviation `fresh` is added. clean: of the foretold latents without
    noise, x̂₀. noise: of the noise that the prediction says is in the latents, ε̂.
    """

    timestep: int
    signal: float
    spread: float
    following: Parts
    fresh: float
    clean: Parts
    noise: Parts

    def next(self, latents: Tensor, predicted: Tensor, noise: Tensor | None) -> Tensor:
        """The latents after the step, (B, 4, h, w). noise: standard normal; None where fresh is 0.

        Differentiable by the latents and by the prediction.
        """
        after = self.following.of(latents, predicted)
        return after if noise is None else after + self.fresh * noise


def ddim_steps(
    settings: ScheduleSettings, prediction: Prediction, *, steps: int, eta: float
) -> tuple[DdimStep, ...]:
    """The steps of a drawing, from noise alone to none.

    eta: how much new noise each step brings, 0 to 1: 0 none, 1 as much as DDPM.
    Raises UserError for noise prediction with zero terminal SNR, whose first latents hold no signal
    to foretell anything from.
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
            clean, noise = Parts(1 / signal, -spread / signal), Parts(0.0, 1.0)
        case "v_prediction":
            clean, noise = Parts(signal, -spread), Parts(spread, signal)
    fresh = eta * math.sqrt((1 - next_level) / (1 - level) * (1 - level / next_level))
    # Never below 0 but by rounding: with eta 1 all noise is new where the latents hold no signal.
    direction = math.sqrt(max(1 - next_level - fresh**2, 0.0))
    following = Parts(
        math.sqrt(next_level) * clean.latents + direction * noise.latents,
        math.sqrt(next_level) * clean.predicted + direction * noise.predicted,
    )
    return DdimStep(timestep, signal, spread, following, fresh, clean, noise)


def _levels(settings: ScheduleSettings) -> list[float]:
    """ᾱ of each timestep, as `scaled_linear` has it.

    In plain numbers: its tables are rounded to float32, and on a card they are waited for.
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
    """From most to least noisy."""
    count = settings.steps
    if settings.zero_terminal_snr:
        # Rounded as numpy's ranges are, in which diffusers counts: it decides what a half becomes.
        stride_down = (count - count / steps) - count
        return [round(count + number * stride_down) - 1 for number in range(steps)]
    stride = count // steps
    return [min(number * stride + _OFFSET, count - 1) for number in reversed(range(steps))]
