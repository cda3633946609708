"""What the network is asked to predict."""

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
    """The training target of a batch.

    latents, noise: (B, C, h, w), scaled, float32. timesteps: (B,), int64.
    Source: epsilon, Ho et al. 2020, arXiv:2006.11239, equation 14; velocity, Salimans & Ho 2022,
    arXiv:2202.00512, section 4.
    """
    match prediction:
        case "epsilon":
            return noise
        case "v_prediction":
            signal, spread = at(schedule.signal, timesteps), at(schedule.noise, timesteps)
            return signal * noise - spread * latents
