"""Elementwise losses between predictions and targets."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from modules.diffusion.schedule import NoiseLevels
from onetrainer.config.objectives.loss import Losses

# Where log(cosh(x)) is |x| - log(2) to the last bit of a float64, and sinh still far from overflow.
_STRAIGHT_FROM = 20.0


def errors(
    mix: Losses, predicted: Tensor, target: Tensor, *, threshold: Tensor | None = None
) -> Tensor:
    """Compute the weighted sum of the loss terms for every element, (B, C, h, w).

    threshold: (B, 1, 1, 1), of the pseudo-Huber loss; required with that loss.
    """
    terms = []
    if mix.mse:
        terms.append(_times(mix.mse, functional.mse_loss(predicted, target, reduction="none")))
    difference = predicted - target if mix.mae or mix.huber or mix.log_cosh else predicted
    if mix.mae:
        terms.append(_times(mix.mae, difference.abs()))
    if mix.huber:
        assert threshold is not None
        terms.append(_times(mix.huber, pseudo_huber(difference, threshold)))
    if mix.log_cosh:
        terms.append(_times(mix.log_cosh, log_cosh(difference)))
    return torch.stack(terms).sum(dim=0) if len(terms) > 1 else terms[0]


def pseudo_huber(difference: Tensor, threshold: Tensor) -> Tensor:
    """Compute 2c·(sqrt(x² + c²) - c): x² far below the threshold c, 2c·|x| far above it.

    As c → ∞ it becomes the squared error; divided by 2c it becomes the absolute error as c → 0.
    Written as 2c·x² / (sqrt(x² + c²) + c), which loses no precision where x is small compared to c.
    Source: Khrapov et al. 2024, arXiv:2403.16728.
    """
    square = difference**2
    return 2 * threshold * square / ((square + threshold**2).sqrt() + threshold)


def log_cosh(difference: Tensor) -> Tensor:
    """Compute log(cosh(x)): x² / 2 near 0, |x| - log(2) far from it; its gradient is tanh(x).

    Near 0 as log1p(2·sinh²(x/2)), which does not cancel there as other forms do.
    """
    near = difference.clamp(-_STRAIGHT_FROM, _STRAIGHT_FROM)
    return torch.log1p(2 * torch.sinh(near / 2) ** 2) + (difference - near).abs()


def huber_thresholds(section: Losses, levels: NoiseLevels) -> Tensor | None:
    """Return the pseudo-Huber threshold at each timestep, (steps,), float32; None without the loss.

    "constant": c everywhere. "exponential": c^(t / steps), falling from 1. "snr":
    (1 - c) / (1 + σ)² + c, where σ is noise over signal: from nearly 1 to c as σ → ∞, and finite
    for noise alone. c: the threshold of noise alone.
    Source: Khrapov et al. 2024, arXiv:2403.16728.
    """
    if not section.huber:
        return None
    threshold = section.huber_threshold
    match section.huber_schedule:
        case "constant":
            table = torch.full_like(levels.signal, threshold)
        case "exponential":
            fractions = torch.arange(levels.steps, dtype=torch.float64) / levels.steps
            table = (fractions * math.log(threshold)).exp().to(levels.signal)
        case "snr":
            # 1 / (1 + σ), without the σ that is infinite for noise alone.
            fraction = levels.signal / (levels.signal + levels.noise)
            table = (1 - threshold) * fraction**2 + threshold
    return table * section.huber_scale


def _times(factor: float, term: Tensor) -> Tensor:
    return term if factor == 1 else factor * term
