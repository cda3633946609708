"""Similarity of images to reference images: by CLIP, or by color and layout alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from modules.memory.to_device import to_device
from modules.rewards.networks.clip import Clip

GRID = 16
"""Layout is compared on a grid of so many cells per side."""
_SMOOTH = 1e-3  # of a distance: keeps the gradient finite for equal images


@dataclass(frozen=True)
class ClipSimilarity:
    """The cosine between an image's CLIP vector and the mean of the references', in [-1, 1].

    target: that mean's direction, (width,), float32. The mean, not the nearest of them, so that
    their common features are rewarded, and no copy of one.
    """

    clip: Clip
    target: Tensor

    @property
    def has_gradient(self) -> bool:
        return True

    def extra_modules(self) -> nn.Module:
        return self.clip.modules()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        return self.clip.embed_images(images) @ to_device(self.target, images.device)


@dataclass(frozen=True)
class ColorSimilarity:
    """Minus the mean distance to the references in color and layout; at most 0.

    Half of it is the distance of colors: of each channel's mean and standard deviation; half that
    of layouts: of the colors of 16 x 16 cells. Both as root mean squares, in [0, 1].
    colors: of the references, (N, 6). layouts: (N, 3 * 16 * 16). Both float32.
    """

    colors: Tensor
    layouts: Tensor

    @property
    def has_gradient(self) -> bool:
        return True

    def extra_modules(self) -> nn.Module:
        return nn.Module()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        color = _distance(_colors(images), to_device(self.colors, images.device))
        layout = _distance(_layouts(images), to_device(self.layouts, images.device))
        return -(color + layout) / 2


def clip_similarity(clip: Clip, references: Sequence[Tensor]) -> ClipSimilarity:
    """Build the reward from references, (3, H, W), float32 in [0, 1], of any size and device."""
    vectors = []
    with torch.no_grad():
        for image in references:
            vectors.append(clip.embed_images(image[None].to(clip.vision.device)))
    mean = torch.cat(vectors).mean(dim=0)
    return ClipSimilarity(clip, functional.normalize(mean, dim=0))


def color_similarity(references: Sequence[Tensor]) -> ColorSimilarity:
    """Build the reward from references, (3, H, W), float32 in [0, 1], of any size."""
    images = [reference[None] for reference in references]
    return ColorSimilarity(
        torch.cat([_colors(image) for image in images]),
        torch.cat([_layouts(image) for image in images]),
    )


def _distance(features: Tensor, targets: Tensor) -> Tensor:
    """Compute the mean RMS difference from N targets, (B,). features: (B, D); targets: (N, D)."""
    squares = (features[:, None] - targets).square().mean(dim=-1)  # (B, N)
    return ((squares + _SMOOTH**2).sqrt() - _SMOOTH).mean(dim=-1)


def _colors(images: Tensor) -> Tensor:
    """Compute each channel's mean and standard deviation, (B, 6)."""
    mean = images.mean(dim=(-2, -1))
    variance = (images - mean[..., None, None]).square().mean(dim=(-2, -1))
    return torch.cat([mean, (variance + _SMOOTH**2).sqrt()], dim=-1)


def _layouts(images: Tensor) -> Tensor:
    """Compute the mean colors of a grid's cells, (B, 3 * 16 * 16)."""
    return functional.adaptive_avg_pool2d(images, GRID).flatten(1)
