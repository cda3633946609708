"""What can be measured of a picture without a network: its color, light, contrast and form.

All take pictures, (B, 3, H, W), floating, red, green and blue in [0, 1] as they are shown (sRGB),
and give (B,). All are means over a picture's pixels, so that pictures of any size compare, and have
a finite gradient everywhere, at flat, black and white pictures too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from torch import Tensor, nn

ColorName = Literal["warm", "cool", "red", "green", "blue"]
LUMA = (0.299, 0.587, 0.114)  # of red, green, blue: ITU-R BT.601, as JPEG has it
# Of red, green, blue. Each adds up to 0, so that gray has none of any color.
_COLORS: Mapping[ColorName, tuple[float, float, float]] = MappingProxyType(
    {
        "warm": (1.0, 0.0, -1.0),
        "cool": (-1.0, 0.0, 1.0),
        "red": (1.0, -0.5, -0.5),
        "green": (-0.5, 1.0, -0.5),
        "blue": (-0.5, -0.5, 1.0),
    }
)
# Below a quarter of a level of 8 bits: there roots become parabolas, whose slope is finite.
_SMOOTH = 1e-3
_FLAT = 1e-4  # the variance of a contrast of 0.01, too little to tell left from right by


@dataclass(frozen=True)
class Measure:
    """A formula over pictures alone, as a reward. formula: (B, 3, H, W) to (B,)."""

    formula: Callable[[Tensor], Tensor]

    @property
    def has_gradient(self) -> bool:
        return True

    def own_modules(self) -> nn.Module:
        return nn.Module()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        del prompts
        return self.formula(images)


def color(images: Tensor, name: ColorName) -> Tensor:
    """How much of a color there is, in [-1, 1]; 0 for gray.

    "warm" is red minus blue, so that red and yellow have 1, blue and cyan -1; "cool" is the
    opposite. The others are that channel minus the mean of the other two.
    """
    return _weighted(images, _COLORS[name]).mean(dim=(1, 2))


def brightness(images: Tensor) -> Tensor:
    """The mean luma, from 0, black, to 1, white."""
    return luma(images).mean(dim=(1, 2))


def contrast(images: Tensor) -> Tensor:
    """The standard deviation of luma, from 0, flat, to 0.5, half black and half white.

    Source: Peli 1990, "Contrast in complex images" (RMS contrast).
    """
    return _root(_variance(luma(images)))


def saturation(images: Tensor) -> Tensor:
    """The mean distance of the pixels from gray, from 0 to 1, which the six purest colors have.

    Of each pixel sqrt(3/2) times the distance of (red, green, blue) from their mean. Unlike HSV's
    saturation it is small for dark pixels, whose color nobody sees, and smooth.
    """
    from_gray = images - images.mean(dim=1, keepdim=True)
    return _root(1.5 * from_gray.square().sum(dim=1)).mean(dim=(1, 2))


def sharpness(images: Tensor) -> Tensor:
    """The root mean square of luma's slope, from 0, flat, to 1.4; photographs have about 0.1.

    The slope is that from pixel to pixel, to the right and down. Squares make one step in place of
    a ramp count more, so that it is not only the number of edges that matters; noise counts too.
    A picture that is merely enlarged has less of it.
    """
    light = luma(images)
    across = (light[:, :, 1:] - light[:, :, :-1]).square().mean(dim=(1, 2))
    down = (light[:, 1:] - light[:, :-1]).square().mean(dim=(1, 2))
    return _root(across + down)


def symmetry(images: Tensor) -> Tensor:
    """How much the left half is the right one's mirror image: 1 the same, 0 unlike, -1 opposite.

    The correlation of the picture with its mirror image, channel by channel around its mean. A
    flat picture has 1. Making a picture paler does not make it more symmetric.
    """
    apart = (images - images.flip(-1)).square().mean(dim=(1, 2, 3))
    return 1 - apart / (2 * _variance(images).mean(dim=1) + _FLAT)


def luma(images: Tensor) -> Tensor:
    """How light each pixel is, (B, H, W), in [0, 1]."""
    return _weighted(images, LUMA)


def _weighted(images: Tensor, weights: tuple[float, float, float]) -> Tensor:
    red, green, blue = images.unbind(dim=1)
    return weights[0] * red + weights[1] * green + weights[2] * blue


def _variance(values: Tensor) -> Tensor:
    """Over the last two dimensions."""
    return (values - values.mean(dim=(-2, -1), keepdim=True)).square().mean(dim=(-2, -1))


def _root(square: Tensor) -> Tensor:
    """The square root, which far below _SMOOTH becomes x² / (2 * _SMOOTH): no infinite slope."""
    return (square + _SMOOTH**2).sqrt() - _SMOOTH
