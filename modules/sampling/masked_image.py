"""What models that see a masked image are given of a sample's: its mask, and the rest of it."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn import functional

from modules.interfaces import Family
from onetrainer.config.run.sampling import Prompt
from onetrainer.images.decoding import decoding
from onetrainer.images.image_file import (
    ImageError,
    apply_orientation,
    opaque,
    open_image,
    orientation,
)

WHITE = 128  # at least; the mask is repainted there


def masked_input(family: Family, prompt: Prompt) -> Tensor | None:
    """Return a prompt's mask and the latents of the rest of its image, (1, 1 + C, h, w).

    None if the family is given none, or the prompt has none: then all is painted. The VAE is where
    it computes. Image and mask are scaled to cover the sample's size, and cut at the sides. As in
    training, the masked area is gray, and the mask is scaled to the nearest pixels.

    Raises:
        ImageError: If one of the files cannot be read.
    """
    if not (family.spec.sees_masked_image and prompt.image and prompt.mask):
        return None
    size = (prompt.width, prompt.height)
    image = ImageOps.fit(_read(prompt.image), size, Image.Resampling.LANCZOS)
    gray = ImageOps.fit(_read(prompt.mask).convert("L"), size, Image.Resampling.BILINEAR)
    mask = torch.from_numpy(np.asarray(gray) >= WHITE).float()[None, None]  # (1, 1, H, W)
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 127.5 - 1
    mean = family.encode_images(pixels * (1 - mask)).mean
    small = functional.interpolate(mask, size=mean.shape[2:])
    return torch.cat([small.to(mean.device), mean], dim=1)


def _read(name: str) -> Image.Image:
    path = Path(name)
    try:
        with path.open("rb") as file, open_image(file, path) as image:
            exif_orientation = orientation(image, file)
            with decoding(image, path):
                return apply_orientation(opaque(image), exif_orientation)
    except OSError as error:
        raise ImageError(path, (error.strerror or str(error)).lower()) from error
