"""The demo's autoencoder: SD 1.5's VAE a hundred times smaller, trained on random drawings.

The autoencoder must be able to show more than the base model can generate, because the demo then
trains the base on something new (a face has small dark eyes and a thin mouth). So it is trained on
dots, lines, arcs and many shapes of many colors, cropped at random places.
"""

import random
from collections.abc import Callable

import torch
from diffusers import AutoencoderKL
from diffusers.models.attention_processor import Attention
from diffusers.models.downsampling import Downsample2D
from diffusers.models.resnet import ResnetBlock2D
from diffusers.models.upsampling import Upsample2D
from PIL import Image, ImageDraw
from torch import Tensor, nn
from torch.nn import functional

from modules import seeds
from modules.demo.optimize import optimize, to_pixels
from onetrainer.demo.images import (
    COLORS,
    SHAPES,
    Rgb,
    draw,
    draw_background,
    paste_with_shadow,
    random_scene,
    shape_mask,
)
from onetrainer.demo.write import BASE

STEPS, POLISH_STEPS = 3600, 2000
PEAK_RATE = 1e-3
SIDE, CROP_SIDE = 128, 64  # quarter images: four times as many steps per second
WHOLE_FRACTION = 0.1  # the last steps use whole images, so the attention is trained at full size
# Strong enough that neighboring latents mean similar images (a small UNet needs that), weak
# enough that edges stay sharp. Latent diffusion (arXiv:2112.10752) uses far less, with a far
# bigger UNet.
KL_WEIGHT = 2e-4
POLISH_NOISE = 0.15  # of latents with a deviation of about 2
LANE = 4  # channels per color: +c, -c, +K, -K
CONSTANT = 3.0  # K


def build() -> AutoencoderKL:
    """Build an untrained autoencoder with the blocks of SD 1.5's and 1/8 of its widths or less.

    Four channels per group as in SD 1.5: smaller groups would normalize colors away.
    """
    vae = AutoencoderKL.from_config(AutoencoderKL.load_config(BASE / "vae"))
    _initialize_as_pyramid(vae)
    return vae


def train(vae: AutoencoderKL, *, steps: int, seed: int) -> None:
    """Train in place on newly generated drawings."""

    def loss(step: int) -> Tensor:
        rng = random.Random(f"{seed} doodle {step}")
        if step >= steps * (1 - WHOLE_FRACTION):
            images = [doodle(rng) for _ in range(4)]
        else:
            sources = [doodle(rng) for _ in range(4)]
            images = [_crop(source, rng) for source in sources for _ in range(2)]
        pixels = to_pixels(images)
        posterior = vae.encode(pixels).latent_dist
        generator = seeds.generator(seed, "demo autoencoder noise", step)
        restored = vae.decode(posterior.sample(generator)).sample
        # kl() sums over an image's latents; the mean keeps one weight for crops and whole images.
        kl_loss: Tensor = posterior.kl().mean() / posterior.mean[0].numel()
        return _difference(restored, pixels) + KL_WEIGHT * kl_loss

    optimize(vae, loss, steps=steps, rate=PEAK_RATE)


def polish(vae: AutoencoderKL, *, steps: int, seed: int) -> None:
    """Train only the decoder, in place, to decode clean edges from slightly wrong latents.

    A UNet's latents are never exactly the encoder's, and a decoder trained only on the encoder's
    shows every small error as a smudge. Latents keep their meaning, so the UNet can be trained
    before or after.
    """

    def loss(step: int) -> Tensor:
        rng = random.Random(f"{seed} polish {step}")
        pixels = to_pixels([*(draw(random_scene(rng)) for _ in range(3)), doodle(rng)])
        generator = seeds.generator(seed, "demo polish noise", step)
        with torch.no_grad():
            latents = vae.encode(pixels).latent_dist.sample(generator)
            latents += POLISH_NOISE * torch.randn(latents.shape, generator=generator)
        return _difference(vae.decode(latents).sample, pixels)

    vae.requires_grad_(False)
    for module in (vae.post_quant_conv, vae.decoder):
        module.requires_grad_(True)
    optimize(vae, loss, steps=steps, rate=PEAK_RATE)


def doodle(rng: random.Random) -> Image.Image:
    """Draw an image of SIDE x SIDE pixels with one or two shapes and up to six small marks."""
    image = draw_background(random_scene(rng).background, SIDE, SIDE)
    for _ in range(rng.randint(1, 2)):
        radius = rng.uniform(0.1, 0.4) * SIDE
        center = rng.uniform(0, SIDE), rng.uniform(0, SIDE)
        mask = shape_mask(rng.choice(SHAPES), *center, radius, image.size)
        paste_with_shadow(image, mask, _tone(rng), drop=max(1, round(radius * 0.12)))
    marks = Image.new("L", (SIDE * 4, SIDE * 4))
    for _ in range(rng.randint(0, 6)):
        _mark(ImageDraw.Draw(marks), rng)
    image.paste(_tone(rng), mask=marks.reduce(4))
    return image


def _tone(rng: random.Random) -> Rgb:
    """Return a palette color three times out of five, else near black or any color."""
    match rng.randrange(5):
        case 0:
            return (rng.randint(10, 60), rng.randint(10, 60), rng.randint(10, 60))
        case 1:
            return (rng.randint(0, 255), rng.randint(0, 255), rng.randint(0, 255))
        case _:
            return COLORS[random_scene(rng).color]


def _mark(brush: ImageDraw.ImageDraw, rng: random.Random) -> None:
    """Draw a dot, a line or an arc, at four times the image's scale."""
    x, y = rng.uniform(0, SIDE * 4), rng.uniform(0, SIDE * 4)
    size = rng.uniform(8, 32)
    width = rng.randint(6, 16)
    match rng.randrange(3):
        case 0:
            tall = size * rng.uniform(0.8, 1.6)
            brush.ellipse((x - size, y - tall, x + size, y + tall), fill=255)
        case 1:
            end = rng.uniform(0, SIDE * 4), rng.uniform(0, SIDE * 4)
            brush.line((x, y, *end), fill=255, width=width)
        case _:
            start = rng.uniform(0, 360)
            box = (x - size * 3, y - size * 3, x + size * 3, y + size * 3)
            brush.arc(box, start, start + rng.uniform(60, 300), fill=255, width=width)


def _crop(image: Image.Image, rng: random.Random) -> Image.Image:
    """Crop a square at a random place."""
    left, top = rng.randint(0, SIDE - CROP_SIDE), rng.randint(0, SIDE - CROP_SIDE)
    return image.crop((left, top, left + CROP_SIDE, top + CROP_SIDE))


def _difference(restored: Tensor, pixels: Tensor) -> Tensor:
    """Return the mean difference of pixels and of their gradients, which makes edges sharp."""
    loss = functional.l1_loss(restored, pixels)
    for axis in (2, 3):
        loss = loss + functional.l1_loss(restored.diff(dim=axis), pixels.diff(dim=axis))
    return loss


@torch.no_grad()
def _initialize_as_pyramid(vae: AutoencoderKL) -> None:
    """Set initial weights that shrink and enlarge images from the first step.

    With the library's weights, thousands of steps pass before colors come through: the group norms
    before both outputs remove an image's overall color and contrast, and the network has to find a
    way around them. Here it is built in: colors travel in pairs (+c, -c) next to a pair of
    constants (+K, -K). The constants dominate their group's mean and deviation, so the norm becomes
    a fixed scale; and silu(c) - silu(-c) = c makes the activation linear for the pair.
    """
    for module in vae.modules():
        match module:
            case ResnetBlock2D():  # starts as its shortcut
                _set_convolution(module.conv2, nn.init.zeros_)
                if module.conv_shortcut is not None:
                    _set_convolution(module.conv_shortcut, nn.init.dirac_)
            case Downsample2D():  # starts as the mean of 2 x 2
                _set_convolution(module.conv, nn.init.zeros_)
                channels = torch.arange(module.channels)
                # The block pads right and below, so the first two taps of three cover the square.
                module.conv.weight[channels, channels, :2, :2] = 0.25
            case Upsample2D():
                _set_convolution(module.conv, nn.init.dirac_)
            case Attention():
                _set_convolution(module.to_out[0], nn.init.zeros_)
    for half in (vae.encoder, vae.decoder):
        norm, first, last = half.conv_norm_out, half.conv_in, half.conv_out
        width = norm.num_channels // norm.num_groups
        # Deviation of a group: two constants for each lane in it, colors counted as small.
        deviation = CONSTANT * (2 * min(3, width // LANE) / width) ** 0.5
        nn.init.zeros_(last.bias)
        last.weight[:3] = 0
        for color in range(3):
            lane = LANE * color
            first.weight[lane : lane + LANE] = 0
            first.bias[lane : lane + LANE] = torch.tensor([0, 0, CONSTANT, -CONSTANT])
            for offset, sign in ((0, 1), (1, -1)):
                first.weight[lane + offset, color, 1, 1] = sign
                last.weight[color, lane + offset, 1, 1] = sign * deviation
    for quant in (vae.quant_conv, vae.post_quant_conv):
        _set_convolution(quant, nn.init.dirac_)
    # The posterior starts narrow; at its usual width of 1, noise would dominate the first steps.
    nn.init.constant_(vae.quant_conv.bias[4:], -5.0)


def _set_convolution(layer: nn.Conv2d | nn.Linear, fill: Callable[[Tensor], Tensor]) -> None:
    fill(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
