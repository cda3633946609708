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
from onetrainer.families.spec import Prediction

# Under zero terminal SNR some weightings of noise are unbounded. This bounds them: a fifth of the
# lowest ratio in the schedule of Stable Diffusion without it, which it therefore does not affect.
SNR_FLOOR = 1e-3


def min_snr(levels: NoiseLevels, prediction: Prediction, *, gamma: float) -> Tensor:
    """Return min(snr, γ) / snr for noise, min(snr, γ) / (snr + 1) for velocity: (steps,), float32.

    As snr → 0: 1 for noise, 0 for velocity. As snr → ∞: 0 for both.
    Source: Hang et al. 2023, arXiv:2303.09556, section 3.4.
    """
    weights = (gamma / levels.snr).clamp(max=1)
    return _for(prediction, levels, weights)


def debiased(levels: NoiseLevels, prediction: Prediction) -> Tensor:
    """Return 1 / sqrt(snr) for noise, sqrt(snr) / (snr + 1) for velocity: (steps,), float32.

    As snr → 0: the bound by `SNR_FLOOR` for noise, 0 for velocity. As snr → ∞: 0 for both.
    Source: Yu et al. 2023, arXiv:2310.08442, which has noise only.
    """
    if prediction == "epsilon":
        return (1 / levels.snr.clamp(min=SNR_FLOOR)).sqrt().float()
    return (levels.signal.double() * levels.noise.double()).float()


def p2(levels: NoiseLevels, prediction: Prediction, *, gamma: float, k: float) -> Tensor:
    """Return 1 / (k + snr)^γ for noise, snr / (snr + 1) of it for velocity: (steps,), float32.

    As snr → 0: k^-γ for noise, 0 for velocity. As snr → ∞: 0 for both, if γ is above 0.
    Source: Choi et al. 2022, arXiv:2204.00227, section 3.
    """
    return _for(prediction, levels, (k + levels.snr) ** -gamma)


def velocity_like(levels: NoiseLevels, prediction: Prediction, *, strength: float) -> Tensor:
    """Return the ordinary weight of noise plus `strength` times that of velocity training.

    1 + strength·(snr + 1) / snr for noise, snr / (snr + 1) + strength for velocity: (steps,),
    float32. As snr → 0: the bound by `SNR_FLOOR` for noise, strength for velocity. As snr → ∞:
    1 + strength for both.
    """
    if prediction == "epsilon":
        return (1 + strength * (1 + 1 / levels.snr.clamp(min=SNR_FLOOR))).float()
    return (_signal_power(levels) + strength).float()


def noise_like(levels: NoiseLevels, prediction: Prediction) -> Tensor:
    """Return 1 for noise, snr / (snr + 1) for velocity: (steps,), float32.

    As snr → 0: 1 for noise, 0 for velocity. As snr → ∞: 1 for both.
    """
    return _for(prediction, levels, torch.ones_like(levels.snr))


def _for(prediction: Prediction, levels: NoiseLevels, weights: Tensor) -> Tensor:
    """Convert weights of the squared error of noise to those of what is predicted."""
    return (weights if prediction == "epsilon" else weights * _signal_power(levels)).float()


def _signal_power(levels: NoiseLevels) -> Tensor:
    """Return the squared signal, snr / (snr + 1) of denoising diffusion, (steps,), float64."""
    return levels.signal.double() ** 2
