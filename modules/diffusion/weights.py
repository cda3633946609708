"""Loss weights of timesteps, as tables over the timesteps.

A weighting says which noise levels matter. It is defined for models that predict noise; in one
that predicts velocity, the same error of the noise is an error of the velocity 1 / sqrt(ᾱ) times
as large, whose square therefore counts ᾱ = snr / (snr + 1) times as much; in a rectified flow it is
1 / (1 - σ) times as large. So a weighting means the same for all: in each the factor is the squared
signal. All follow from the training schedule, with zero terminal SNR from the rescaled one, and are
finite there.
Source of the factor: Salimans & Ho 2022, arXiv:2202.00512, section 4.
"""

import torch
from torch import Tensor

from modules.diffusion.schedule import NoiseLevels
from onetrainer.config.objectives.weighting import (
    P2,
    Debiased,
    MinSnr,
    NoiseLike,
    Plain,
    VelocityLike,
    Weighting,
)
from onetrainer.families.spec import Prediction

# Under zero terminal SNR some weightings of noise are unbounded. This bounds them: a fifth of the
# lowest ratio in the schedule of Stable Diffusion without it, which it therefore does not affect.
SNR_FLOOR = 1e-3


def weight_table(section: Weighting, levels: NoiseLevels, prediction: Prediction) -> Tensor | None:
    """Return the loss weight of each timestep, (steps,), float32; None if all are 1.

    As snr → 0 the weights of velocity are 0, except `VelocityLike`'s, which is its strength.
    """
    device = levels.signal.device
    # Apple's GPUs have no float64.
    table = _weights(section, levels.to(torch.device("cpu")), prediction == "epsilon")
    return None if table is None else table.float().to(device)


def _weights(section: Weighting, levels: NoiseLevels, is_noise: bool) -> Tensor | None:
    signal_power = levels.signal.double() ** 2
    match section:
        case Plain():
            return None
        case MinSnr():
            # min(snr, γ) / snr. Source: Hang et al. 2023, arXiv:2303.09556, section 3.4.
            weights = (section.gamma / levels.snr).clamp(max=1)
        case Debiased() if is_noise:
            # 1 / sqrt(snr). Source: Yu et al. 2023, arXiv:2310.08442, which has noise only.
            weights = (1 / levels.snr.clamp(min=SNR_FLOOR)).sqrt()
        case Debiased():
            # sqrt(snr) / (snr + 1), without the division by a signal of 0.
            return levels.signal.double() * levels.noise.double()
        case P2():
            # 1 / (k + snr)^γ. Source: Choi et al. 2022, arXiv:2204.00227, section 3.
            weights = (section.k + levels.snr) ** -section.exponent
        case VelocityLike(strength=strength) if is_noise:
            # The ordinary weight of noise plus `strength` times that of velocity training.
            weights = 1 + strength * (1 + 1 / levels.snr.clamp(min=SNR_FLOOR))
        case VelocityLike(strength=strength):
            return signal_power + strength
        case NoiseLike():
            weights = torch.ones_like(levels.snr)
    return weights if is_noise else weights * signal_power
