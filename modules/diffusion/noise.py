"""Training noise: offset, pyramid and perturbation noise on top of plain Gaussian noise."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from modules.diffusion.draws import Draws
from modules.diffusion.schedule import NoiseLevels
from onetrainer.config.objectives.noise import Noise as NoiseSection

# Each level of a pyramid is coarser than the last by a random factor in this range, so that no
# blob size is preferred.
_MIN_COARSER, _MAX_COARSER = 2.0, 4.0


@dataclass(frozen=True)
class Noise:
    """added: noise that is added to the latents. target: what the model predicts. (B, C, h, w)."""

    added: Tensor
    target: Tensor


def draw_noise(
    settings: NoiseSection, draws: Draws, *, shape: torch.Size, offset_growth: Tensor | None = None
) -> Noise:
    """Draw the noise of a microbatch, float32, on the CPU.

    In this order: plain noise; the pyramid, normalized to a standard deviation of 1; the offset;
    the perturbation. The model predicts all of it, but not the input perturbation.

    Args:
        settings: Strengths of what is mixed into plain noise.
        draws: The random draws of the microbatch.
        shape: (C, h, w).
        offset_growth: (B,), each image's fraction of the offset; None means all of it.
    """
    noise = draws.normal("noise", shape)
    if settings.pyramid_levels:
        noise = pyramid(
            noise,
            draws.generators("pyramid-noise"),
            levels=settings.pyramid_levels,
            discount=settings.pyramid_discount,
        )
    if settings.offset:
        # Source: Guttenberg 2023, "Diffusion with Offset Noise".
        offset = settings.offset * draws.normal("offset-noise", torch.Size((shape[0], 1, 1)))
        if offset_growth is not None:
            offset = offset * offset_growth.view(-1, 1, 1, 1)
        noise = noise + offset
    if settings.perturbation:
        noise = noise + settings.perturbation * draws.normal("perturbation-noise", shape)
    if not settings.input_perturbation:
        return Noise(noise, noise)
    # Source: Ning et al. 2023, arXiv:2301.11706, algorithm 1: the network's input contains the
    # second noise, its target does not.
    second = draws.normal("input-noise", shape)
    return Noise(noise + settings.input_perturbation * second, noise)


def pyramid(
    noise: Tensor, generators: Iterable[torch.Generator], *, levels: int, discount: float
) -> Tensor:
    """Add coarser and coarser noise, and normalize each image to a standard deviation of 1.

    Each level is 2 to 4 times coarser than the last; the last is one element high or wide.
    Source: Whitaker 2023, "Multi-Resolution Noise for Diffusion Model Training", which also adds
    plain noise a second time, and normalizes over the whole batch.

    Args:
        noise: (B, C, h, w), float32.
        generators: One per image.
        levels: Maximum number of coarser noises.
        discount: Strength of each level relative to the one before.
    """
    return torch.stack(
        [
            _image_pyramid(image, generator, levels=levels, discount=discount)
            for image, generator in zip(noise, generators, strict=True)
        ]
    )


def offset_growth(levels: NoiseLevels) -> Tensor:
    """Return the fraction of a generalized offset at each timestep, (steps,), float32, up to 1.

    Let the mean of x_t move by δ_t·ξ in each forward step, ξ being the offset. The noise in x_t is
    then ε + ψ_t·ξ, and the reverse step has to remove ε + φ_t·ξ. Both are equal, so that a model
    can be trained to predict the noise in its input, exactly if ψ_t is in proportion to
    sqrt((1 - ᾱ_t) / ᾱ_t); here it ends in 1. With zero terminal SNR only the last timestep, which
    has infinitely more noise than signal, has an offset.
    Source: Kutsuna 2024, arXiv:2412.03134, the balanced strategy, whose recursion this solves.
    """
    signal, noise = levels.signal.double(), levels.noise.double()
    earlier = noise[:-1] * signal[-1] / (signal[:-1] * noise[-1])
    return torch.cat([earlier, torch.ones_like(noise[-1:])]).float()


def _image_pyramid(
    noise: Tensor, generator: torch.Generator, *, levels: int, discount: float
) -> Tensor:
    height, width = noise.shape[-2:]
    coarseness, strength = 1.0, 1.0
    for _ in range(levels):
        fraction = float(torch.rand((), generator=generator, dtype=torch.float64))
        coarseness *= _MIN_COARSER + fraction * (_MAX_COARSER - _MIN_COARSER)
        strength *= discount
        size = max(1, int(height / coarseness)), max(1, int(width / coarseness))
        coarse = torch.randn(noise.shape[0], *size, generator=generator)
        enlarged = functional.interpolate(coarse[None], size=(height, width), mode="bilinear")[0]
        noise = noise + strength * enlarged
        if 1 in size:
            break
    return noise / noise.std()
