"""The demo's autoencoder: SD 1.5's VAE a hundred times smaller, trained on random drawings."""

import logging
import random
from collections.abc import Callable

import torch
from diffusers import AutoencoderKL
from PIL import Image
from torch import Tensor
from torch.nn import functional

from modules import seeds
from modules.demo import doodles
from modules.demo.learning_rate import one_cycle
from modules.demo.pixels import to_pixels
from modules.demo.pyramid import initialize_as_pyramid
from onetrainer.demo.images import draw, random_scene

logger = logging.getLogger(__name__)

STEPS = 3600
PEAK_RATE = 1e-3
CROP_SIDE, CROPS = 64, 8  # quarter images: four times as many steps per second
WHOLE = 4
WHOLE_FRACTION = 0.1  # the last steps use whole images, so the attention is trained at full size
# Strong enough that neighboring latents mean similar images (a small UNet needs that), weak
# enough that edges stay sharp. Latent diffusion (arXiv:2112.10752) uses far less, with a far
# bigger UNet.
KL_WEIGHT = 2e-4
POLISH_STEPS = 2000
POLISH_NOISE = 0.15  # of latents with a deviation of about 2


def build() -> AutoencoderKL:
    """Build an untrained autoencoder with the blocks of SD 1.5's and 1/8 of its widths or less."""
    vae = AutoencoderKL(
        block_out_channels=(16, 32, 48, 48),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        latent_channels=4,
        # Four channels per group as in SD 1.5: smaller groups would normalize colors away.
        norm_num_groups=4,
        sample_size=128,
    )
    initialize_as_pyramid(vae)
    return vae


def train(vae: AutoencoderKL, *, steps: int, seed: int) -> None:
    """Train in place on newly generated drawings."""

    def loss(step: int) -> Tensor:
        pixels = _doodles(whole=step >= steps * (1 - WHOLE_FRACTION), seed=seed, step=step)
        return _loss(vae, pixels, seeds.generator(seed, "demo autoencoder noise", step))

    _optimize(vae, loss, steps=steps, name="autoencoder")


def polish(vae: AutoencoderKL, *, steps: int, seed: int) -> None:
    """Train only the decoder, in place, to decode clean edges from slightly wrong latents.

    A UNet's latents are never exactly the encoder's, and a decoder trained only on the encoder's
    shows every small error as a smudge. Latents keep their meaning, so the UNet can be trained
    before or after.
    """

    def loss(step: int) -> Tensor:
        pixels = _whole_images(seed=seed, step=step)
        generator = seeds.generator(seed, "demo polish noise", step)
        with torch.no_grad():
            latents = vae.encode(pixels).latent_dist.sample(generator)
            latents += POLISH_NOISE * torch.randn(latents.shape, generator=generator)
        return _difference(vae.decode(latents).sample, pixels)

    vae.requires_grad_(False)
    for module in (vae.post_quant_conv, vae.decoder):
        module.requires_grad_(True)
    _optimize(vae, loss, steps=steps, name="polish")


def _optimize(
    vae: AutoencoderKL, loss_of: Callable[[int], Tensor], *, steps: int, name: str
) -> None:
    parameters = [parameter for parameter in vae.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=PEAK_RATE, betas=(0.9, 0.99))
    vae.to(memory_format=torch.channels_last)  # a fifth faster on a CPU
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * one_cycle(step, steps)
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        if step % 50 == 0 or step == steps - 1:
            logger.info("%s step %d of %d, loss %.4f", name, step, steps, loss.item())
    vae.to(memory_format=torch.contiguous_format)


def _doodles(*, whole: bool, seed: int, step: int) -> Tensor:
    """Return drawings as pixels, (CROPS, 3, 64, 64) or, whole, (WHOLE, 3, 128, 128)."""
    rng = random.Random(f"{seed} doodle {step}")
    images: list[Image.Image]
    if whole:
        images = [doodles.doodle(rng) for _ in range(WHOLE)]
    else:
        sources = [doodles.doodle(rng) for _ in range(CROPS // 2)]
        images = [doodles.crop(source, CROP_SIDE, rng) for source in sources for _ in range(2)]
    return to_pixels(images).contiguous(memory_format=torch.channels_last)


def _whole_images(*, seed: int, step: int) -> Tensor:
    """Return pixels, (WHOLE, 3, 128, 128), of training images of the UNet and one drawing."""
    rng = random.Random(f"{seed} polish {step}")
    images = [draw(random_scene(rng)) for _ in range(WHOLE - 1)]
    images.append(doodles.doodle(rng))
    return to_pixels(images).contiguous(memory_format=torch.channels_last)


def _loss(vae: AutoencoderKL, pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Return the reconstruction loss plus the weighted KL divergence from unit noise."""
    posterior = vae.encode(pixels).latent_dist
    restored = vae.decode(posterior.sample(generator)).sample
    # kl() sums over an image's latents; the mean keeps one weight for crops and whole images.
    kl_loss = posterior.kl().mean() / posterior.mean[0].numel()
    loss: Tensor = _difference(restored, pixels) + KL_WEIGHT * kl_loss
    return loss


def _difference(restored: Tensor, pixels: Tensor) -> Tensor:
    """Return the mean difference of pixels and of their gradients, which makes edges sharp."""
    loss = functional.l1_loss(restored, pixels)
    for axis in (2, 3):
        loss = loss + functional.l1_loss(restored.diff(dim=axis), pixels.diff(dim=axis))
    return loss
