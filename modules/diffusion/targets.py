"""Prediction targets of the UNet."""

from torch import Tensor

from modules.diffusion.schedule import NoiseSchedule, at
from onetrainer.config.run.model import Prediction


def target(
    prediction: Prediction,
    *,
    schedule: NoiseSchedule,
    latents: Tensor,
    noise: Tensor,
    timesteps: Tensor,
) -> Tensor:
    """Compute the training target of a batch, (B, C, h, w).

    Source: epsilon, Ho et al. 2020, arXiv:2006.11239, equation 14; velocity, Salimans & Ho 2022,
    arXiv:2202.00512, section 4.

    Args:
        prediction: What the model predicts.
        schedule: The noise schedule.
        latents: (B, C, h, w), scaled, float32.
        noise: (B, C, h, w), float32.
        timesteps: (B,), int64.
    """
    match prediction:
        case "epsilon":
            return noise
        case "v_prediction":
            signal, spread = at(schedule.signal, timesteps), at(schedule.noise, timesteps)
            return signal * noise - spread * latents
