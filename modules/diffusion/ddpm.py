"""Denoising diffusion: the noise process of Stable Diffusion, which predicts noise or velocity."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from modules.diffusion.sampling_steps import SamplingStep, ddim_steps
from modules.diffusion.schedule import NoiseLevels, ScheduleSettings, at, scaled_linear
from modules.diffusion.schedulers import Scheduler, ddpm_scheduler
from onetrainer.config.run.sampling import SamplerName
from onetrainer.errors import UserError
from onetrainer.families.spec import Prediction


@dataclass(frozen=True)
class Ddpm:
    """Noise by a schedule of betas; implements `modules.interfaces.NoiseProcess`.

    levels: sqrt(ᾱ) and sqrt(1 - ᾱ). Source: Ho et al. 2020, arXiv:2006.11239, equation 4.
    """

    settings: ScheduleSettings
    prediction: Prediction
    levels: NoiseLevels

    @property
    def zero_terminal_snr(self) -> bool:
        return self.settings.zero_terminal_snr

    def to(self, device: torch.device) -> "Ddpm":
        return replace(self, levels=self.levels.to(device))

    def target(self, latents: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """Return the noise, or compute the velocity (Salimans & Ho 2022, arXiv:2202.00512, 4)."""
        if self.prediction == "epsilon":
            return noise
        signal, spread = at(self.levels.signal, timesteps), at(self.levels.noise, timesteps)
        return signal * noise - spread * latents

    def network_times(self, timesteps: Tensor) -> Tensor:
        return timesteps

    def scheduler(self, name: SamplerName, steps: int) -> Scheduler:
        self._require_signal()
        return ddpm_scheduler(name, self.settings, self.prediction, steps=steps)

    def sampling_steps(self, steps: int, *, eta: float) -> tuple[SamplingStep, ...]:
        self._require_signal()
        return ddim_steps(self.settings, self.prediction, steps=steps, eta=eta)

    def _require_signal(self) -> None:
        """Raise UserError if noise would be predicted from noise alone, which shows nothing."""
        if self.settings.zero_terminal_snr and self.prediction == "epsilon":
            raise UserError(
                "a model that predicts noise (epsilon) cannot be sampled with zero terminal SNR",
                "Such models predict velocity (v_prediction)",
                "Set the prediction to v_prediction, or zero terminal SNR to off",
            )


def ddpm(settings: ScheduleSettings | None = None, prediction: Prediction = "epsilon") -> Ddpm:
    """Return the process of settings; None means those of Stable Diffusion."""
    settings = settings or ScheduleSettings()
    return Ddpm(settings, prediction, scaled_linear(settings))
