"""The noise that pictures are hidden under, and that which a model is asked to predict."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from modules.diffusion.draws import Draws
from modules.diffusion.schedule import NoiseSchedule

# Each level of a pyramid is coarser than the last by a random factor in between, so that no size
# of blobs is preferred.
_LEAST_COARSER, _MOST_COARSER = 2.0, 4.0


@dataclass(frozen=True)
class NoiseSettings:
    """What is mixed into plain noise; 0 leaves a thing out.

    offset, perturbation, input_perturbation: standard deviations. pyramid_levels: how many coarser
    noises are added, each `pyramid_discount` as strong as the one before.
    """

    offset: float = 0.0
    pyramid_levels: int = 0
    pyramid_discount: float = 0.3
    perturbation: float = 0.0
    input_perturbation: float = 0.0


@dataclass(frozen=True)
class Noise:
    """added: what is put over a latent. wanted: what of it is to be predicted. (B, C, h, w)."""

    added: Tensor
    wanted: Tensor


def draw_noise(
    settings: NoiseSettings, draws: Draws, *, shape: torch.Size, offset_growth: Tensor | None = None
) -> Noise:
    """The noise of a microbatch, float32, on the CPU.

    In this order: plain noise; the pyramid, brought back to a deviation of 1; the offset; the
    perturbation. All this is to be predicted. Only the input perturbation is not.
    shape: (C, h, w). offset_growth: (B,), each picture's share of the offset; None means all of it.
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
    # Source: Ning et al. 2023, arXiv:2301.11706, algorithm 1: the network's input has the second
    # noise, its target has not.
    second = draws.normal("input-noise", shape)
    return Noise(noise + settings.input_perturbation * second, noise)


def pyramid(
    noise: Tensor, generators: list[torch.Generator], *, levels: int, discount: float
) -> Tensor:
    """Noise with coarser and coarser noise added, each picture at a standard deviation of 1.

    noise: (B, C, h, w), float32; generators: one for each picture. A level is drawn 2 to 4 times
    coarser than the last and enlarged; the last is that of which one side is a single number.
    Source: Whitaker 2023, "Multi-Resolution Noise for Diffusion Model Training", which also adds
    plain noise a second time, and takes the deviation over the whole batch.
    """
    return torch.stack(
        [
            _one_pyramid(image, generator, levels=levels, discount=discount)
            for image, generator in zip(noise, generators, strict=True)
        ]
    )


def offset_growth(schedule: NoiseSchedule) -> Tensor:
    """How much of a generalised offset each timestep has, (steps,), float32: from near 0 to 1.

    Let the mean of x_t move by δ_t·ξ in each forward step, ξ being the offset. The noise in x_t is
    then ε + ψ_t·ξ, and the reverse step has to take ε + φ_t·ξ away. Both are the same, so that a
    model can be asked for the noise that it sees, exactly if ψ_t is in proportion to
    sqrt((1 - ᾱ_t) / ᾱ_t); here it ends in 1. With zero terminal SNR only the last timestep, which
    has infinitely more noise than signal, has an offset.
    Source: Kutsuna 2024, arXiv:2412.03134, the balanced strategy, whose recursion this solves.
    """
    signal, noise = schedule.signal.double(), schedule.noise.double()
    earlier = noise[:-1] * signal[-1] / (signal[:-1] * noise[-1])
    return torch.cat([earlier, torch.ones_like(noise[-1:])]).float()


def _one_pyramid(
    noise: Tensor, generator: torch.Generator, *, levels: int, discount: float
) -> Tensor:
    height, width = noise.shape[-2:]
    coarseness, strength = 1.0, 1.0
    for _ in range(levels):
        share = float(torch.rand((), generator=generator, dtype=torch.float64))
        coarseness *= _LEAST_COARSER + share * (_MOST_COARSER - _LEAST_COARSER)
        strength *= discount
        size = max(1, int(height / coarseness)), max(1, int(width / coarseness))
        coarse = torch.randn(noise.shape[0], *size, generator=generator)
        enlarged = functional.interpolate(coarse[None], size=(height, width), mode="bilinear")[0]
        noise = noise + strength * enlarged
        if 1 in size:
            break
    return noise / noise.std()
