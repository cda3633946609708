"""Measures of images without a network: color, brightness, contrast, shape and diversity.

All take images, (B, 3, H, W), floating point, in sRGB in [0, 1]. All but diversity return (B,), are
means over an image's pixels, so that images of any size compare, and have a finite gradient
everywhere, also for uniform, black and white images.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

ColorName = Literal["warm", "cool", "red", "green", "blue"]
LUMA = (0.299, 0.587, 0.114)  # of red, green, blue: ITU-R BT.601, as in JPEG
# Of red, green, blue. Each sums to 0, so that gray has none of any color.
_COLORS: Mapping[ColorName, tuple[float, float, float]] = {
    "warm": (1.0, 0.0, -1.0),
    "cool": (-1.0, 0.0, 1.0),
    "red": (1.0, -0.5, -0.5),
    "green": (-0.5, 1.0, -0.5),
    "blue": (-0.5, -0.5, 1.0),
}
# Below a quarter of a level of 8 bits: there roots become parabolas, whose slope is finite.
_SMOOTH = 1e-3
_SIDE = 32  # layout and colors count, not the noise of single pixels
_FLAT = 1e-4  # the variance of a contrast of 0.01, too small to compare left and right


class Reward(Protocol):
    """A function that scores images."""

    @property
    def has_gradient(self) -> bool:
        """Whether the score is differentiable with respect to the images."""
        ...

    def extra_modules(self) -> nn.Module:
        """Return the reward's network; an empty module if it has none."""
        ...

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        """Score images, (B, 3, H, W), float32 in [0, 1]: (B,), float32, higher is better.

        Never called under autocast. An image's score does not depend on the rest of the batch, up
        to rounding.
        """
        ...


@dataclass(frozen=True)
class Measure:
    """A formula of the images alone, as a reward. formula: (B, 3, H, W) to (B,)."""

    formula: Callable[[Tensor], Tensor]
    has_gradient: bool = True

    def extra_modules(self) -> nn.Module:
        return nn.Module()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        del prompts
        return self.formula(images)


def color(images: Tensor, name: ColorName) -> Tensor:
    """Measure the amount of a color, in [-1, 1]; 0 for gray.

    "warm" is red minus blue, so that red and yellow have 1, blue and cyan -1; "cool" is the
    opposite. The others are that channel minus the mean of the other two.
    """
    return _weighted(images, _COLORS[name]).mean(dim=(1, 2))


def brightness(images: Tensor) -> Tensor:
    """Compute the mean luma, from 0, black, to 1, white."""
    return luma(images).mean(dim=(1, 2))


def contrast(images: Tensor) -> Tensor:
    """Compute the standard deviation of luma, from 0, uniform, to 0.5, half black and half white.

    Source: Peli 1990, "Contrast in complex images" (RMS contrast).
    """
    return _root(_variance(luma(images)))


def saturation(images: Tensor) -> Tensor:
    """Compute the mean distance of the pixels from gray, from 0 to 1, that of the purest colors.

    Of each pixel sqrt(3/2) times the distance of (red, green, blue) from their mean. Unlike HSV's
    saturation it is small for dark pixels, whose color is invisible, and smooth.
    """
    from_gray = images - images.mean(dim=1, keepdim=True)
    return _root(1.5 * from_gray.square().sum(dim=1)).mean(dim=(1, 2))


def sharpness(images: Tensor) -> Tensor:
    """Compute the root mean square slope of luma, from 0 to 1.4; photographs have about 0.1.

    The slope is that between adjacent pixels, to the right and down. Because of the squares a
    single step counts more than a ramp, so that not only the number of edges matters; noise counts
    too. Upscaling an image lowers it.
    """
    light = luma(images)
    horizontal = (light[:, :, 1:] - light[:, :, :-1]).square().mean(dim=(1, 2))
    vertical = (light[:, 1:] - light[:, :-1]).square().mean(dim=(1, 2))
    return _root(horizontal + vertical)


def symmetry(images: Tensor) -> Tensor:
    """Measure left-right symmetry: 1 symmetric, 0 uncorrelated, -1 opposite.

    The correlation of the image with its mirror image, channel by channel around its mean. A
    uniform image has 1. Lowering the contrast does not raise it.
    """
    difference = (images - images.flip(-1)).square().mean(dim=(1, 2, 3))
    return 1 - difference / (2 * _variance(images).mean(dim=1) + _FLAT)


def downscaled(images: Tensor) -> Tensor:
    """Downscale images to 32 × 32 by area averaging, for `diversity`.

    Smaller images are returned unchanged.
    """
    return functional.adaptive_avg_pool2d(images, _SIDE)


def diversity(images: Tensor) -> Tensor:
    """Measure how different images are from each other: a scalar in [0, 1], 0 if all are equal.

    The mean over all pairs of the root mean square difference of the images, averaged over 32 x 32
    areas; 0 for a single image.
    """
    if len(images) < 2:
        return images.new_zeros(())
    small = downscaled(images).flatten(1)
    first, second = torch.triu_indices(len(small), len(small), offset=1, device=small.device)
    return (small[first] - small[second]).square().mean(dim=1).sqrt().mean()


def luma(images: Tensor) -> Tensor:
    """Compute the luma of each pixel, (B, H, W), in [0, 1]."""
    return _weighted(images, LUMA)


def _weighted(images: Tensor, weights: tuple[float, float, float]) -> Tensor:
    red, green, blue = images.unbind(dim=1)
    return weights[0] * red + weights[1] * green + weights[2] * blue


def _variance(values: Tensor) -> Tensor:
    """Compute the variance over the last two dimensions."""
    return (values - values.mean(dim=(-2, -1), keepdim=True)).square().mean(dim=(-2, -1))


def _root(square: Tensor) -> Tensor:
    """Compute the square root, smoothed so that its slope at 0 is finite."""
    return (square + _SMOOTH**2).sqrt() - _SMOOTH
