"""Conversion of the denoising objective's config to numbers and tables."""

import torch
from torch import Tensor

from modules.diffusion import weights
from modules.diffusion.losses import LossMix, huber_thresholds
from modules.diffusion.noise import NoiseSettings, offset_growth
from modules.diffusion.schedule import NoiseLevels
from modules.diffusion.timesteps import cumulative
from modules.interfaces import NoiseProcess
from onetrainer.config.objectives.loss import Losses
from onetrainer.config.objectives.noise import Noise
from onetrainer.config.objectives.timesteps import Timesteps, Uniform
from onetrainer.config.objectives.weighting import (
    P2,
    Debiased,
    MinSnr,
    NoiseLike,
    Plain,
    VelocityLike,
    Weighting,
)
from onetrainer.schedules.timestep_density import density


def loss_mix(section: Losses) -> LossMix:
    """Return the weights of the loss terms."""
    return LossMix(section.mse, section.mae, section.huber, section.log_cosh)


def threshold_table(section: Losses, levels: NoiseLevels) -> Tensor | None:
    """Return the Huber threshold at each timestep, (steps,); None without Huber loss."""
    if not section.huber:
        return None
    return huber_thresholds(
        levels,
        section.huber_schedule,
        threshold=section.huber_threshold,
        scale=section.huber_scale,
    )


def weight_table(section: Weighting, process: NoiseProcess) -> Tensor | None:
    """Return the loss weight of each timestep, (steps,); None if all are 1."""
    levels, prediction = process.levels, process.prediction
    match section:
        case Plain():
            return None
        case MinSnr():
            return weights.min_snr(levels, prediction, gamma=section.gamma)
        case Debiased():
            return weights.debiased(levels, prediction)
        case P2():
            return weights.p2(levels, prediction, gamma=section.exponent, k=section.k)
        case VelocityLike():
            return weights.velocity_like(levels, prediction, strength=section.strength)
        case NoiseLike():
            return weights.noise_like(levels, prediction)


def timestep_table(section: Timesteps, *, steps: int) -> Tensor | None:
    """Return the cumulative timestep distribution, (steps,), float64; None if it is uniform."""
    if section == Uniform():
        return None
    return cumulative(density(section, steps))


def noise_settings(section: Noise) -> NoiseSettings:
    """Return the strengths of what is mixed into plain noise."""
    return NoiseSettings(
        offset=section.offset,
        pyramid_levels=section.pyramid_levels,
        pyramid_discount=section.pyramid_discount,
        perturbation=section.perturbation,
        input_perturbation=section.input_perturbation,
    )


def growth_table(section: Noise, levels: NoiseLevels) -> Tensor | None:
    """Return the offset fraction at each timestep, (steps,), on the CPU; None if all are 1."""
    if not section.offset or not section.offset_by_timestep:
        return None
    return offset_growth(levels).to(torch.device("cpu"))
