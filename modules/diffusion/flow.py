"""Rectified flow: the noise process of Stable Diffusion 3 and Flux, which predict its velocity."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from modules.diffusion.sampling_steps import SamplingStep, flow_steps
from modules.diffusion.schedule import NoiseLevels
from modules.diffusion.schedulers import Scheduler, flow_scheduler
from onetrainer.config.run.sampling import SamplerName
from onetrainer.families.spec import Prediction

STEPS = 1000


@dataclass(frozen=True)
class RectifiedFlow:
    """Straight lines from latents to noise; implements `modules.interfaces.NoiseProcess`.

    Source: Liu et al. 2022, arXiv:2209.03003; its shift: Esser et al. 2024, arXiv:2403.03206,
    section 5.3.2.

    Attributes:
        levels: 1 - σ and σ; σ is 1 at the last timestep.
        shift: Above 1, timesteps are noisier.
    """

    levels: NoiseLevels
    shift: float = 1.0

    @property
    def prediction(self) -> Prediction:
        return "flow"

    @property
    def zero_terminal_snr(self) -> bool:
        return False  # its levels are not rescaled: they end in noise alone by themselves

    def to(self, device: torch.device) -> "RectifiedFlow":
        return replace(self, levels=self.levels.to(device))

    def target(self, latents: Tensor, noise: Tensor, _timesteps: Tensor) -> Tensor:
        """Return the velocity from latents to noise."""
        return noise - latents

    def network_times(self, timesteps: Tensor) -> Tensor:
        """Return σ of timesteps in thousandths, (B,), float32."""
        return self.levels.noise[timesteps] * STEPS

    def scheduler(self, name: SamplerName, steps: int) -> Scheduler:
        found = self.sampling_steps(steps, eta=0)
        return flow_scheduler(name, found, times=STEPS, shift=self.shift)

    def sampling_steps(self, steps: int, *, eta: float) -> tuple[SamplingStep, ...]:
        # Evenly spaced between the shifted ends and shifted again, as diffusers' scheduler has it.
        last = _shifted(1 / STEPS, self.shift)
        even = [1 - (1 - last) * number / max(steps - 1, 1) for number in range(steps)]
        return flow_steps([_shifted(each, self.shift) for each in even], times=STEPS, eta=eta)


def rectified_flow(shift: float = 1.0) -> RectifiedFlow:
    """Return the process of a shift, computed in float64."""
    even = torch.arange(1, STEPS + 1, dtype=torch.float64) / STEPS
    noise = shift * even / (1 + (shift - 1) * even)
    return RectifiedFlow(NoiseLevels((1 - noise).float(), noise.float()), shift)


def _shifted(level: float, shift: float) -> float:
    return shift * level / (1 + (shift - 1) * level)
