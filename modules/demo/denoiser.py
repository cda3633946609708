"""The demo's UNet and text encoder: SD 1.5's topology, trained together from random weights.

Noise, schedule, target and the networks' use are the program's (modules.diffusion,
modules.families); only here all weights are trained, on images in memory.
"""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import CLIPTextConfig, CLIPTextModel

from modules import seeds
from modules.demo.learning_rate import one_cycle
from modules.demo.pixels import to_pixels
from modules.diffusion.targets import target
from modules.families.stable_diffusion import StableDiffusion
from modules.interfaces import LatentMoments
from onetrainer.demo.captions import random_caption
from onetrainer.demo.images import Scene, draw, random_scene

logger = logging.getLogger(__name__)

STEPS = 4000
PEAK_RATE = 1.2e-3
BATCH = 32
SCENES = 6000
EMPTY_CAPTIONS = 0.1  # fraction of captions dropped, which classifier-free guidance needs
SLOW_NOISE = ((1, 0.25), (2, 0.25), (4, 0.35), (8, 0.4))  # grid side, strength
TWINS, TWIN_WEIGHT = ("circle", "square"), 2.5
MAX_WEIGHT = 25.0  # of a timestep; 1 / signal power is up to 215
EMA_DECAY = 0.995
WIDTH = 56
PREVIEW_EVERY = 400


class Denoiser(nn.Module):
    """UNet and text encoder as one module, for one optimizer and one EMA."""

    def __init__(self) -> None:
        super().__init__()
        self.unet = UNet2DConditionModel(
            sample_size=16,
            block_out_channels=(32, 64, 64, 64),
            layers_per_block=2,
            cross_attention_dim=WIDTH,
            # As in SD 1.5's config, the number of heads, not channels; two, because the attention
            # maps of eight would take most of a step's time at these widths.
            attention_head_dim=2,
            # Eight channels per group, near SD 1.5's ten; smaller groups remove too much.
            norm_num_groups=4,
        )
        self.text_encoder = CLIPTextModel(
            CLIPTextConfig(
                vocab_size=49408,
                hidden_size=WIDTH,
                intermediate_size=4 * WIDTH,
                projection_dim=WIDTH,
                num_hidden_layers=3,
                num_attention_heads=4,
                max_position_embeddings=77,
                hidden_act="quick_gelu",
                bos_token_id=49406,
                # transformers then pools at the true end even if tokens are added.
                eos_token_id=49407,
                pad_token_id=49407,
            )
        )


@dataclass(frozen=True)
class TrainingData:
    """Scenes and their latents, encoded once: moments of (SCENES, 4, 16, 16)."""

    scenes: tuple[Scene, ...]
    moments: LatentMoments

    def weights(self) -> list[float]:
        """Return how often each scene is sampled, relative to the others.

        A circle and a square differ only at four corners, and are confused longest.
        """
        return [TWIN_WEIGHT if scene.shape in TWINS else 1.0 for scene in self.scenes]


@torch.no_grad()
def prepare_data(vae: AutoencoderKL, *, seed: int, count: int = SCENES) -> TrainingData:
    """Draw the scenes and encode them; sets the autoencoder's scaling factor accordingly."""
    rng = random.Random(f"{seed} scenes")
    scenes = tuple(random_scene(rng) for _ in range(count))
    posteriors = [
        vae.encode(to_pixels([draw(scene) for scene in scenes[start : start + BATCH]])).latent_dist
        for start in range(0, count, BATCH)
    ]
    mean = torch.cat([posterior.mean for posterior in posteriors])
    std = torch.cat([posterior.std for posterior in posteriors])
    # Gives sampled latents unit deviation, as 0.18215 does for SD 1.5's autoencoder.
    scale = round(float((mean.var() + std.square().mean()).rsqrt()), 5)
    vae.register_to_config(scaling_factor=scale)
    logger.info("latents are scaled by %.5f", scale)
    return TrainingData(scenes, LatentMoments(mean * scale, std * scale))


def build_denoiser(seed: int) -> Denoiser:
    """Build a denoiser with random weights."""
    with torch.random.fork_rng():
        # Both libraries sample initial weights from the global generator.
        torch.manual_seed(seeds.derive(seed, "demo painter"))
        return Denoiser()


def train(
    denoiser: Denoiser,
    family: StableDiffusion,
    data: TrainingData,
    *,
    steps: int,
    seed: int,
    preview: Callable[[Denoiser], None],
) -> Denoiser:
    """Train a denoiser and return it with EMA weights.

    family: Made of the denoiser's networks.
    preview: Called with the EMA weights regularly, so that a long run can be judged early.
    """
    ema_model = AveragedModel(denoiser, multi_avg_fn=get_ema_multi_avg_fn(EMA_DECAY))  # type: ignore[no-untyped-call]  # torch's
    optimizer = torch.optim.AdamW(denoiser.parameters(), lr=PEAK_RATE, betas=(0.9, 0.99))
    denoiser.unet.to(memory_format=torch.channels_last)  # a tenth faster on a CPU
    losses: list[Tensor] = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * one_cycle(step, steps)
        loss = _loss(family, data, seed=seed, step=step)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        nn.utils.clip_grad_norm_(denoiser.parameters(), 1.0)
        optimizer.step()
        ema_model.update_parameters(denoiser)
        losses.append(loss.detach())
        if (step + 1) % 50 == 0:
            recent = float(torch.stack(losses[-50:]).mean())
            logger.info("painter step %d of %d, loss %.4f", step + 1, steps, recent)
        if (step + 1) % PREVIEW_EVERY == 0:
            preview(_ema_weights(ema_model))
    return _ema_weights(ema_model)


def _ema_weights(ema_model: AveragedModel) -> Denoiser:
    assert isinstance(ema_model.module, Denoiser)
    return ema_model.module


def _loss(family: StableDiffusion, data: TrainingData, *, seed: int, step: int) -> Tensor:
    """Return the epsilon loss of one batch of random scenes."""
    rng = random.Random(f"{seed} batch {step}")
    generator = seeds.generator(seed, "demo painter", step)
    chosen = rng.choices(range(len(data.scenes)), data.weights(), k=BATCH)
    mean, std = data.moments.mean[chosen], data.moments.std[chosen]
    latents = mean + std * torch.randn(mean.shape, generator=generator)
    noise = _noise(mean.shape, generator)
    timesteps = _timesteps(generator)
    noisy = family.schedule.add_noise(latents, noise, timesteps)
    conditioning = family.encode_text(_captions(data, chosen, rng))
    time_ids = noisy.new_zeros(len(noisy), 6)  # ignored by SD 1.x
    predicted = family.predict(noisy, timesteps, conditioning, time_ids=time_ids)
    wanted = target(
        family.prediction,
        schedule=family.schedule,
        latents=latents,
        noise=noise,
        timesteps=timesteps,
    )
    error = (predicted - wanted).square().mean(dim=(1, 2, 3))  # (BATCH,)
    return (error * _weights(family, timesteps)).mean()


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
    from_even, from_shapes, from_colors = BATCH // 2, BATCH // 4, BATCH // 4
    lowest = torch.tensor([0] * from_even + [600] * from_shapes + [850] * from_colors)
    fraction = torch.rand(BATCH, generator=generator)
    return (lowest + fraction * (1000 - lowest)).long()


def _weights(family: StableDiffusion, timesteps: Tensor) -> Tensor:
    """Return loss weights, (BATCH,): 1 / signal power, at most MAX_WEIGHT.

    In noise, a wrong color costs the plain epsilon loss next to nothing, so it is trained last. Up
    to the limit this is the loss of velocity prediction (arXiv:2202.00512, section 4).
    """
    return family.schedule.alphas_cumprod[timesteps].reciprocal().clamp(max=MAX_WEIGHT)


def _captions(data: TrainingData, chosen: list[int], rng: random.Random) -> list[str]:
    """Return a random caption of each scene, sometimes empty."""
    return [
        "" if rng.random() < EMPTY_CAPTIONS else random_caption(data.scenes[index], rng)
        for index in chosen
    ]
