"""The demo's UNet and text encoder: SD 1.5's topology, trained together from random weights.

Noise, schedule, target and the networks' use are the program's (modules.diffusion,
modules.families); only here all weights are trained, on images in memory.
"""

import random

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import CLIPTextConfig, CLIPTextModel

from modules import seeds
from modules.demo.optimize import optimize, to_pixels
from modules.families.stable_diffusion import StableDiffusion
from modules.interfaces import LatentMoments
from onetrainer.demo.images import Scene, draw, random_caption, random_scene
from onetrainer.demo.write import BASE

STEPS = 4000
PEAK_RATE = 1.2e-3
BATCH = 32
SCENES = 6000
EMPTY_CAPTIONS = 0.1  # fraction of captions dropped, which classifier-free guidance needs
SLOW_NOISE = ((1, 0.25), (2, 0.25), (4, 0.35), (8, 0.4))  # grid side, strength
# A circle and a square differ only at four corners, and are confused longest: sampled more often.
TWINS, TWIN_WEIGHT = ("circle", "square"), 2.5
MAX_WEIGHT = 25.0  # of a timestep; 1 / signal power is up to 215
EMA_DECAY = 0.995


class Denoiser(nn.Module):
    """UNet and text encoder with random weights as one module, for one optimizer and one EMA.

    Two attention heads, as the attention maps of eight would take most of a step's time at these
    widths; eight channels per group, near SD 1.5's ten, as smaller groups remove too much.
    """

    def __init__(self) -> None:
        super().__init__()
        config = UNet2DConditionModel.load_config(BASE / "unet")
        self.unet = UNet2DConditionModel.from_config(config)
        self.text_encoder = CLIPTextModel(CLIPTextConfig.from_pretrained(BASE / "text_encoder"))


def train(
    denoiser: Denoiser,
    family: StableDiffusion,
    vae: AutoencoderKL,
    *,
    steps: int,
    seed: int,
    count: int = SCENES,
) -> Denoiser:
    """Train a denoiser on this many random scenes and return it with EMA weights.

    family: Made of the denoiser's networks.
    """
    rng = random.Random(f"{seed} scenes")
    scenes = [random_scene(rng) for _ in range(count)]
    weights = [TWIN_WEIGHT if scene.shape in TWINS else 1.0 for scene in scenes]
    moments = _encode(vae, scenes)

    def loss(step: int) -> Tensor:
        rng = random.Random(f"{seed} batch {step}")
        chosen = rng.choices(range(count), weights, k=BATCH)
        captions = [
            "" if rng.random() < EMPTY_CAPTIONS else random_caption(scenes[index], rng)
            for index in chosen
        ]
        batch = LatentMoments(moments.mean[chosen], moments.std[chosen])
        return _loss(family, batch, captions, seeds.generator(seed, "demo painter", step))

    ema = AveragedModel(denoiser, multi_avg_fn=get_ema_multi_avg_fn(EMA_DECAY))  # type: ignore[no-untyped-call]  # torch's
    denoiser.unet.to(memory_format=torch.channels_last)  # a tenth faster on a CPU
    optimize(
        denoiser,
        loss,
        steps=steps,
        rate=PEAK_RATE,
        after_step=lambda: ema.update_parameters(denoiser),
    )
    assert isinstance(ema.module, Denoiser)
    return ema.module


@torch.no_grad()
def _encode(vae: AutoencoderKL, scenes: list[Scene]) -> LatentMoments:
    """Draw and encode scenes: (N, 4, 16, 16); sets the autoencoder's scaling factor accordingly."""
    posteriors = [
        vae.encode(to_pixels([draw(scene) for scene in scenes[start : start + BATCH]])).latent_dist
        for start in range(0, len(scenes), BATCH)
    ]
    mean = torch.cat([posterior.mean for posterior in posteriors])
    std = torch.cat([posterior.std for posterior in posteriors])
    # Gives sampled latents unit deviation, as 0.18215 does for SD 1.5's autoencoder.
    scale = round(float((mean.var() + std.square().mean()).rsqrt()), 5)
    vae.register_to_config(scaling_factor=scale)
    return LatentMoments(mean * scale, std * scale)


def _loss(
    family: StableDiffusion, moments: LatentMoments, captions: list[str], generator: torch.Generator
) -> Tensor:
    """Return the epsilon loss of one batch, weighted by 1 / signal power, at most MAX_WEIGHT.

    In noise, a wrong color costs the plain epsilon loss next to nothing, so it is trained last. Up
    to the limit this is the loss of velocity prediction (arXiv:2202.00512, section 4).
    """
    shape = moments.mean.shape
    latents = moments.mean + moments.std * torch.randn(shape, generator=generator)
    noise = _noise(shape, generator)
    timesteps = _timesteps(generator)
    noisy = family.process.levels.add_noise(latents, noise, timesteps)
    conditioning = family.encode_text(captions)
    time_ids = noisy.new_zeros(len(noisy), 6)  # ignored by SD 1.x
    predicted = family.predict(noisy, timesteps, conditioning, time_ids=time_ids)
    wanted = family.process.target(latents, noise, timesteps)
    error = (predicted - wanted).square().mean(dim=(1, 2, 3))  # (BATCH,)
    weights = family.process.levels.alphas_cumprod[timesteps].reciprocal().clamp(max=MAX_WEIGHT)
    return (error * weights).mean()


def _noise(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Return white noise, (B, 4, h, w), with more low frequencies than usual.

    Even the noisiest image of the schedule shows its overall color and form, so a model trained
    with white noise alone takes both from the image, and ignores the caption when sampling from
    pure noise. Hidden in low-frequency noise they have to come from the caption: "offset noise"
    does this for colors, the higher frequencies here for shapes. Measured: a model with 12 of 36
    backgrounds right after 2100 steps without it had all 36 after 500 more with it.
    """
    noise = torch.randn(shape, generator=generator)
    for side, strength in SLOW_NOISE:
        coarse = torch.randn((*shape[:2], side, side), generator=generator)
        noise = noise + strength * functional.interpolate(coarse, shape[2:], mode="bilinear")
    return noise


def _timesteps(generator: torch.Generator) -> Tensor:
    """Return timesteps, (BATCH,), int64: half uniform, a quarter from 600, a quarter from 850 on.

    The caption's influence (colors first, then shapes) is decided there: below, the noisy image
    itself shows it, and a uniform one shows it long.
    """
    lowest = torch.tensor([0] * (BATCH // 2) + [600] * (BATCH // 4) + [850] * (BATCH // 4))
    fraction = torch.rand(BATCH, generator=generator)
    return (lowest + fraction * (1000 - lowest)).long()
