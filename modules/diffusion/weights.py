"""Loss weights of timesteps, as tables over the timesteps.

A weighting says which noise levels matter. It is defined for models that predict noise; in one
that predicts velocity, the same error of the noise is an error of the velocity 1 / sqrt(ᾱ) times
as large, whose square therefore counts ᾱ = snr / (snr + 1) times as much. So a weighting means the
same for both. All follow from the training schedule, with zero terminal SNR from the rescaled one,
and are finite there.
Source of the factor: Salimans & Ho 2022, arXiv:2202.00512, section 4.
"""

import torch
from torch import Tensor

from modules.diffusion.schedule import NoiseSchedule
from onetrainer.config.run.model import Prediction

# Under zero terminal SNR some weightings of noise are unbounded. This bounds them: a fifth of the
# lowest ratio in the schedule of Stable Diffusion without it, which it therefore does not affect.
SNR_FLOOR = 1e-3


def min_snr(schedule: NoiseSchedule, prediction: Prediction, *, gamma: float) -> Tensor:
    """Return min(snr, γ) / snr for noise, min(snr, γ) / (snr + 1) for velocity: (steps,), float32.

    As snr → 0: 1 for noise, 0 for velocity. As snr → ∞: 0 for both.
    Source: Hang et al. 2023, arXiv:2303.09556, section 3.4.
    """
    weights = (gamma / _ratio(schedule)).clamp(max=1)
    return _for(prediction, schedule, weights)


def debiased(schedule: NoiseSchedule, prediction: Prediction) -> Tensor:
    """Return 1 / sqrt(snr) for noise, sqrt(snr) / (snr + 1) for velocity: (steps,), float32.

    As snr → 0: the bound by `SNR_FLOOR` for noise, 0 for velocity. As snr → ∞: 0 for both.
    Source: Yu et al. 2023, arXiv:2310.08442, which has noise only.
    """
    match prediction:
        case "epsilon":
            return (1 / _ratio(schedule).clamp(min=SNR_FLOOR)).sqrt().float()
        case "v_prediction":
            return (schedule.signal.double() * schedule.noise.double()).float()


def p2(schedule: NoiseSchedule, prediction: Prediction, *, gamma: float, k: float) -> Tensor:
    """Return 1 / (k + snr)^γ for noise, snr / (snr + 1) of it for velocity: (steps,), float32.

    As snr → 0: k^-γ for noise, 0 for velocity. As snr → ∞: 0 for both, if γ is above 0.
    Source: Choi et al. 2022, arXiv:2204.00227, section 3.
    """
    return _for(prediction, schedule, (k + _ratio(schedule)) ** -gamma)


def velocity_like(schedule: NoiseSchedule, prediction: Prediction, *, strength: float) -> Tensor:
    """Return the ordinary weight of noise plus `strength` times that of velocity training.

    1 + strength·(snr + 1) / snr for noise, snr / (snr + 1) + strength for velocity: (steps,),
    float32. As snr → 0: the bound by `SNR_FLOOR` for noise, strength for velocity. As snr → ∞:
    1 + strength for both.
    """
    match prediction:
        case "epsilon":
            return (1 + strength * (1 + 1 / _ratio(schedule).clamp(min=SNR_FLOOR))).float()
        case "v_prediction":
            return (_signal_share(schedule) + strength).float()


def noise_like(schedule: NoiseSchedule, prediction: Prediction) -> Tensor:
    """Return 1 for noise, snr / (snr + 1) for velocity: (steps,), float32.

    As snr → 0: 1 for noise, 0 for velocity. As snr → ∞: 1 for both.
    """
    return _for(prediction, schedule, torch.ones_like(_ratio(schedule)))


def _for(prediction: Prediction, schedule: NoiseSchedule, weights: Tensor) -> Tensor:
    """Convert weights of the squared error of noise to those of what is predicted."""
    match prediction:
        case "epsilon":
            return weights.float()
        case "v_prediction":
            return (weights * _signal_share(schedule)).float()


def _ratio(schedule: NoiseSchedule) -> Tensor:
    """Return snr, (steps,), float64."""
    return (schedule.signal.double() / schedule.noise.double()) ** 2


def _signal_share(schedule: NoiseSchedule) -> Tensor:
    """Return ᾱ = snr / (snr + 1), (steps,), float64."""
    return schedule.signal.double() ** 2
