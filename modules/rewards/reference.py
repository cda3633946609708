"""How like a picture is to reference pictures: by CLIP, or by color and layout alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from modules.memory.to_device import sent
from modules.rewards.networks.clip import Clip

GRID = 16
"""Layout is looked at as a grid of so many fields each way."""
_SMOOTH = 1e-3  # of a distance: keeps the gradient finite where pictures are equal


@dataclass(frozen=True)
class LikenessByClip:
    """The cosine between a picture's CLIP vector and the mean of the references', in [-1, 1].

    wanted: that mean's direction, (width,), float32. The mean, not the nearest of them: what they
    have in common is wanted, no copy of one.
    """

    clip: Clip
    wanted: Tensor

    @property
    def has_gradient(self) -> bool:
        return True

    def own_modules(self) -> nn.Module:
        return self.clip.modules()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        return self.clip.of_images(images) @ sent(self.wanted, images.device)


@dataclass(frozen=True)
class LikenessByColor:
    """Minus the mean distance to the references in color and layout; 0 where there is none.

    Half of it is the distance of colors: of each channel's mean and spread over the picture; half
    that of layouts: of the colors of 16 x 16 fields. Both as root mean squares, in [0, 1].
    colors: of the references, (N, 6). layouts: (N, 3 * 16 * 16). Both float32.
    """

    colors: Tensor
    layouts: Tensor

    @property
    def has_gradient(self) -> bool:
        return True

    def own_modules(self) -> nn.Module:
        return nn.Module()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        color = _distance(_colors(images), sent(self.colors, images.device))
        layout = _distance(_layouts(images), sent(self.layouts, images.device))
        return -(color + layout) / 2


def likeness_by_clip(clip: Clip, references: Sequence[Tensor]) -> LikenessByClip:
    """references: (3, H, W), float32 in [0, 1], on any device; of any sizes."""
    vectors = []
    with torch.no_grad():
        for image in references:
            vectors.append(clip.of_images(image[None].to(clip.vision.device)))
    mean = torch.cat(vectors).mean(dim=0)
    return LikenessByClip(clip, functional.normalize(mean, dim=0))


def likeness_by_color(references: Sequence[Tensor]) -> LikenessByColor:
    """references: (3, H, W), float32 in [0, 1]; of any sizes."""
    each = [image[None] for image in references]
    return LikenessByColor(
        torch.cat([_colors(one) for one in each]), torch.cat([_layouts(one) for one in each])
    )


def _distance(features: Tensor, wanted: Tensor) -> Tensor:
    """The mean over N wanted ones of the root mean square difference, (B,); features: (B, D)."""
    squares = (features[:, None] - wanted).square().mean(dim=-1)  # (B, N)
    return ((squares + _SMOOTH**2).sqrt() - _SMOOTH).mean(dim=-1)


def _colors(images: Tensor) -> Tensor:
    """Each channel's mean and spread, (B, 6)."""
    mean = images.mean(dim=(-2, -1))
    variance = (images - mean[..., None, None]).square().mean(dim=(-2, -1))
    return torch.cat([mean, (variance + _SMOOTH**2).sqrt()], dim=-1)


def _layouts(images: Tensor) -> Tensor:
    """The mean colors of a grid's fields, (B, 3 * 16 * 16)."""
    return functional.adaptive_avg_pool2d(images, GRID).flatten(1)
