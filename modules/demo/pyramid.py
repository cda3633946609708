"""Initial weights that make an autoencoder shrink and enlarge images from the first step.

With the library's weights, thousands of steps pass before colors come through: the group norms
before both outputs remove an image's overall color and contrast, and the network has to find a way
around them. Here it is built in: colors travel in pairs (+c, -c) next to a pair of constants (+K,
-K). The constants dominate their group's mean and deviation, so the norm becomes a fixed scale; and
silu(c) - silu(-c) = c makes the activation linear for the pair.
"""

import torch
from diffusers import AutoencoderKL
from diffusers.models.attention_processor import Attention
from diffusers.models.downsampling import Downsample2D
from diffusers.models.resnet import ResnetBlock2D
from diffusers.models.upsampling import Upsample2D
from torch import Tensor, nn

COLORS = 3
LANE = 4  # channels per color: +c, -c, +K, -K
CONSTANT = 3.0
LATENT_GAIN = 1.0  # gives latents of typical images about unit deviation


@torch.no_grad()
def initialize_as_pyramid(vae: AutoencoderKL) -> None:
    """Set the weights in place; details are left to training.

    The autoencoder's first and last stage must have at least 12 channels and groups of 4 channels
    at 16, of 12 at 48 (whole lanes per group).
    """
    for module in vae.modules():
        match module:
            case ResnetBlock2D():  # starts as its shortcut
                nn.init.zeros_(module.conv2.weight)
                nn.init.zeros_(module.conv2.bias)
                if module.conv_shortcut is not None:
                    nn.init.dirac_(module.conv_shortcut.weight)
                    nn.init.zeros_(module.conv_shortcut.bias)
            case Downsample2D():  # starts as the mean of 2 x 2
                channels = torch.arange(module.channels)
                nn.init.zeros_(module.conv.weight)
                nn.init.zeros_(module.conv.bias)
                # The block pads right and below, so the first two taps of three cover the square.
                module.conv.weight[channels, channels, :2, :2] = 0.25
            case Upsample2D():
                nn.init.dirac_(module.conv.weight)
                nn.init.zeros_(module.conv.bias)
            case Attention():
                nn.init.zeros_(module.to_out[0].weight)
                nn.init.zeros_(module.to_out[0].bias)
    for half, gain in ((vae.encoder, LATENT_GAIN), (vae.decoder, 1 / LATENT_GAIN)):
        _fill_lanes(half.conv_in.weight, half.conv_in.bias)
        _read_lanes(half.conv_out.weight, half.conv_out.bias, half.conv_norm_out, gain)
    for quant in (vae.quant_conv, vae.post_quant_conv):
        nn.init.dirac_(quant.weight)
        nn.init.zeros_(quant.bias)
    # The posterior starts narrow; at its usual width of 1, noise would dominate the first steps.
    nn.init.constant_(vae.quant_conv.bias[4:], -5.0)


def _fill_lanes(weight: Tensor, bias: Tensor) -> None:
    """Make a convolution put each input color c into its lane."""
    for color in range(COLORS):
        lane = slice(LANE * color, LANE * (color + 1))
        weight[lane] = 0
        weight[LANE * color, color, 1, 1] = 1
        weight[LANE * color + 1, color, 1, 1] = -1
        bias[lane] = torch.tensor([0, 0, CONSTANT, -CONSTANT])


def _read_lanes(weight: Tensor, bias: Tensor, norm: nn.GroupNorm, gain: float) -> None:
    """Make a convolution after this norm and silu output gain * c for each color."""
    width = norm.num_channels // norm.num_groups
    lanes = min(COLORS, width // LANE)
    # Deviation of a group: two constants for each lane in it, colors counted as small.
    deviation = CONSTANT * (2 * lanes / width) ** 0.5
    weight[:COLORS] = 0
    nn.init.zeros_(bias)
    for color in range(COLORS):
        weight[color, LANE * color, 1, 1] = gain * deviation
        weight[color, LANE * color + 1, 1, 1] = -gain * deviation
