"""Loss weights of noise levels: plotted by the window, applied by the trainer.

A weighting says which noise levels matter. It is defined for models that predict noise; in one
that predicts velocity, the same error of the noise is an error of the velocity 1 / sqrt(ᾱ) times
as large, whose square therefore counts ᾱ = snr / (snr + 1) times as much; in a rectified flow it is
1 / (1 - σ) times as large. So a weighting means the same for all: in each the factor is the squared
signal. All follow from the training schedule, with zero terminal SNR from the rescaled one, and are
finite there.
Source of the factor: Salimans & Ho 2022, arXiv:2202.00512, section 4.
"""

import math
from collections.abc import Sequence

from onetrainer.config.objectives.weighting import (
    P2,
    Debiased,
    DebiasedOther,
    MinSnr,
    NoiseLike,
    Plain,
    VelocityLike,
    Weighting,
)

# Under zero terminal SNR some weightings of noise are unbounded. This bounds them: a fifth of the
# lowest ratio in the schedule of Stable Diffusion without it, which it therefore does not affect.
SNR_FLOOR = 1e-3
SNR_CEILING = 1000.0
"""Above it other trainers count no further, in debiased estimation."""
STEPS = 1000
_BETAS = 0.00085, 0.012


def loss_weight(section: Weighting, signal: float, noise: float, *, is_noise: bool) -> float:
    """Return the loss weight of a noise level.

    signal, noise: The parts of noisy latents. is_noise: whether the model predicts noise, and not
    velocity. As the signal goes to 0 the weight of velocity does, except where `trains_pure_noise`.
    """
    ratio = (signal / noise) ** 2 if noise else math.inf
    match section:
        case Plain():
            return 1.0
        case MinSnr():
            # min(snr, γ) / snr. Source: Hang et al. 2023, arXiv:2303.09556, section 3.4.
            weight = min(section.gamma / ratio, 1.0) if ratio else 1.0
        case Debiased() if is_noise:
            # 1 / sqrt(snr). Source: Yu et al. 2023, arXiv:2310.08442, which has noise only.
            weight = math.sqrt(1 / max(ratio, SNR_FLOOR))
        case Debiased():
            # sqrt(snr) / (snr + 1), without the division by a signal of 0.
            return signal * noise
        case DebiasedOther() if is_noise:
            weight = math.sqrt(1 / min(max(ratio, SNR_FLOOR), SNR_CEILING))
        case DebiasedOther():
            return float((min(ratio, SNR_CEILING) + 1) ** -section.exponent)
        case P2():
            # 1 / (k + snr)^γ. Source: Choi et al. 2022, arXiv:2204.00227, section 3.
            weight = float((section.k + ratio) ** -section.exponent)
        case VelocityLike(strength=strength) if is_noise:
            # The ordinary weight of noise plus `strength` times that of velocity training.
            weight = 1 + strength * (1 + 1 / max(ratio, SNR_FLOOR))
        case VelocityLike(strength=strength):
            return signal**2 + strength
        case NoiseLike():
            weight = 1.0
    return weight if is_noise else weight * signal**2


def signals(*, zero_terminal_snr: bool) -> list[float]:
    """Return sqrt(ᾱ) of each timestep of Stable Diffusion, from low noise to pure noise.

    Source: as of `modules.diffusion.schedule`.
    """
    start, end = (math.sqrt(beta) for beta in _BETAS)
    signal, product = [], 1.0
    for step in range(STEPS):
        product *= 1 - (start + (end - start) * step / (STEPS - 1)) ** 2
        signal.append(math.sqrt(product))
    if zero_terminal_snr:
        first, last = signal[0], signal[-1]
        signal = [(each - last) * first / (first - last) for each in signal]
    return signal


def weight_curve(section: Weighting, *, is_noise: bool, zero_terminal_snr: bool) -> Sequence[float]:
    """Return the loss weight of each timestep of Stable Diffusion."""
    return [
        loss_weight(section, signal, math.sqrt(1 - signal**2), is_noise=is_noise)
        for signal in signals(zero_terminal_snr=zero_terminal_snr)
    ]
