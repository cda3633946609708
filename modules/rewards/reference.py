"""Similarity of images to the reference images of a folder: by CLIP, or by color and layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from modules.memory.to_device import to_device
from modules.rewards.measures import Measure
from modules.rewards.networks.clip import Clip
from onetrainer.concepts.folder_listing import list_folder
from onetrainer.errors import UserError
from onetrainer.images.decoding import decoding
from onetrainer.images.image_file import DEEP_MODES, ImageError, open_image, orientation

GRID = 16
"""Layout is compared on a grid of this many cells per side."""
_SMOOTH = 1e-3  # of a distance: keeps the gradient finite for equal images

MAX_IMAGES = 1000
"""Images that are used; more would take long and hardly change the mean."""
_MAX_SIDE = 512  # pixels; the rewards resize to 224, or 16
_SIDEWAYS, _MIRRORED, _UPSIDE_DOWN = (5, 6, 7, 8), (2, 3, 6, 7), (3, 4, 7, 8)
_DEEP_WHITE = 65535


@dataclass(frozen=True)
class ClipSimilarity:
    """The cosine between an image's CLIP vector and the mean of the references', in [-1, 1].

    target: that mean's direction, (width,), float32. The mean, not the nearest of them, so that
    their common features are rewarded, and no copy of one.
    """

    clip: Clip
    target: Tensor

    has_gradient: ClassVar[bool] = True

    def extra_modules(self) -> nn.Module:
        return self.clip.modules()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        return self.clip.embed_images(images) @ to_device(self.target, images.device)


def clip_similarity(clip: Clip, references: Sequence[Tensor]) -> ClipSimilarity:
    """Build the reward from references, (3, H, W), float32 in [0, 1], of any size and device."""
    device = clip.vision.device
    with torch.no_grad():
        vectors = [clip.embed_images(image[None].to(device)) for image in references]
    mean = torch.cat(vectors).mean(dim=0)
    return ClipSimilarity(clip, functional.normalize(mean, dim=0))


def color_similarity(references: Sequence[Tensor]) -> Measure:
    """Build minus the mean distance to the references in color and layout; at most 0.

    Half of it is the distance of colors: of each channel's mean and standard deviation; half that
    of layouts: of the colors of 16 x 16 cells. Both as root mean squares, in [0, 1].
    references: (3, H, W), float32 in [0, 1], of any size.
    """
    colors = torch.cat([_colors(reference[None]) for reference in references])  # (N, 6)
    layouts = torch.cat([_layouts(reference[None]) for reference in references])

    def similarity(images: Tensor) -> Tensor:
        color = _distance(_colors(images), to_device(colors, images.device))
        layout = _distance(_layouts(images), to_device(layouts, images.device))
        return -(color + layout) / 2

    return Measure(similarity)


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


def reference_images(folder: Path) -> list[Tensor]:
    """Load the folder's images, (3, H, W), float32 in [0, 1], upright, 512 px at most.

    Raises:
        UserError: The folder has none, or one cannot be read.
    """
    if not folder.is_dir():
        raise UserError(
            f"{folder}: no such folder",
            "Expected a folder with the reference images",
            "Check the path",
        )
    paths = [
        image.path for image in list_folder(folder, recursive=False).images if not image.reason
    ]
    if not paths:
        raise UserError(
            f"{folder}: no images in this folder",
            "Expected the reference images in it, not in subfolders",
            "Choose another folder",
        )
    try:
        return [_read(path) for path in paths[:MAX_IMAGES]]
    except ImageError as error:
        raise UserError(str(error), "", "Remove or repair this image") from error


def _read(path: Path) -> Tensor:
    try:
        with path.open("rb") as file, open_image(file, path) as opened_file:
            exif_orientation = orientation(opened_file, file)
            with decoding(opened_file, path):
                image = _opaque(opened_file)
                image.thumbnail((_MAX_SIDE, _MAX_SIDE), Image.Resampling.LANCZOS)
    except OSError as error:
        raise ImageError(path, f"cannot be read ({error.strerror})") from error
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).to(torch.float32) / 255
    # Undoes EXIF's orientation (CIPA DC-008, tag 0x0112): 1 is upright already.
    if exif_orientation in _SIDEWAYS:
        pixels = pixels.transpose(-1, -2)
    if exif_orientation in _MIRRORED:
        pixels = pixels.flip(-1)
    if exif_orientation in _UPSIDE_DOWN:
        pixels = pixels.flip(-2)
    return pixels.contiguous()


def _opaque(image: Image.Image) -> Image.Image:
    """Convert to "RGB"; what is transparent becomes white."""
    if image.mode in DEEP_MODES:
        levels = np.asarray(image).astype(np.float32) * (255 / _DEEP_WHITE)
        return Image.fromarray(levels.round().astype(np.uint8)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    page = Image.new("RGBA", image.size, "white")
    page.alpha_composite(image.convert("RGBA"))
    return page.convert("RGB")
