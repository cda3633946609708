"""Signal and noise of latents at each timestep, computed in float64 and stored in float32."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ScheduleSettings:
    """Parameters of a schedule; the defaults are those of Stable Diffusion 1.x, 2.x and XL.

    Source: Rombach et al. 2022, arXiv:2112.10752; betas are linear in their square roots.
    zero_terminal_snr: rescale it so that the last timestep is noise alone.
    """

    beta_start: float = 0.00085
    beta_end: float = 0.012
    steps: int = 1000
    zero_terminal_snr: bool = False


@dataclass(frozen=True)
class NoiseLevels:
    """Tables over the timesteps: noisy latents are signal * latents + noise * noise.

    signal, noise: (steps,), float32. The noise rises, and the signal falls.
    """

    signal: Tensor
    noise: Tensor

    @property
    def steps(self) -> int:
        """Number of training timesteps."""
        return self.signal.shape[0]  # torch's `len` takes ten times as long

    @property
    def alphas_cumprod(self) -> Tensor:
        """ᾱ, (steps,), float32."""
        return self.signal**2

    @property
    def snr(self) -> Tensor:
        """Signal-to-noise ratio of powers, (steps,), float64."""
        return (self.signal.double() / self.noise.double()) ** 2

    def to(self, device: torch.device) -> "NoiseLevels":
        """Return the same tables on another device."""
        return NoiseLevels(self.signal.to(device), self.noise.to(device))

    def add_noise(self, latents: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """Compute noisy latents, (B, C, h, w), of float32 ones at timesteps, (B,), int64."""
        return at(self.signal, timesteps) * latents + at(self.noise, timesteps) * noise


def scaled_linear(settings: ScheduleSettings) -> NoiseLevels:
    """Return sqrt(ᾱ) and sqrt(1 - ᾱ) of a schedule (Ho et al. 2020, arXiv:2006.11239, eq. 4).

    With zero terminal SNR sqrt(ᾱ) is shifted and scaled so that it starts as before and ends at 0.
    Source: Lin et al. 2023, arXiv:2305.08891, algorithm 1.
    """
    start, end = settings.beta_start**0.5, settings.beta_end**0.5
    betas = torch.linspace(start, end, settings.steps, dtype=torch.float64) ** 2
    signal = torch.cumprod(1 - betas, dim=0).sqrt()
    if settings.zero_terminal_snr:
        signal = (signal - signal[-1]) * (signal[0] / (signal[0] - signal[-1]))
    return NoiseLevels(signal.float(), (1 - signal**2).sqrt().float())


def at(table: Tensor, timesteps: Tensor) -> Tensor:
    """Look up each timestep's entry of a table, shaped (B, 1, 1, 1) to scale latents."""
    return table[timesteps].view(-1, 1, 1, 1)
