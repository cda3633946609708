"""A picture file as the pixels that the VAE sees."""

from typing import BinaryIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from onetrainer.buckets import CropGeometry, crop_geometry
from onetrainer.dataset_index import Item
from onetrainer.picture_file import (
    DEEP_MODES,
    QUARTER_TURNS,
    PictureError,
    opened,
    orientation,
    upright_size,
)

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What undoes each of EXIF's orientations (CIPA DC-008, tag 0x0112). Not Pillow's exif_transpose:
it also rewrites the EXIF block, and stumbles over damaged ones."""

DRAFT_MARGIN = 2
"""Measured on a 12 megapixel JPEG scaled to 683 × 512: 2.4 times as fast as decoding all of it,
and 0.4 of 255 away from it on average. A margin of 1 is 3.5 times as fast and 0.85 away."""

DEEP_WHITE = 65535
"""White in 16 bits."""


def load_pixels(item: Item) -> Tensor:
    """A picture scaled to cover its bucket and cut at the centre; the file is only read.

    Returns (3, height, width) of the bucket, float32 in [-1, 1].
    Raises PictureError if the file cannot be read, or is no longer the picture that was indexed.
    """
    try:
        with item.path.open("rb") as file:
            return decode_pixels(item, file)
    except OSError as error:
        raise PictureError(item.path, f"cannot be read ({error.strerror})") from error


def decode_pixels(item: Item, file: BinaryIO) -> Tensor:
    """The same from bytes that were already read. file: what item.path holds."""
    geometry = crop_geometry(item.width, item.height, item.bucket)
    with opened(file, item.path) as image:
        turn = orientation(image, file)
        if upright_size(image, turn) != (item.width, item.height):
            raise PictureError(item.path, "its size has changed since the folder was read")
        _draft(image, geometry, turn)
        opaque = _opaque(image)
    if turn in TURNS:
        opaque = opaque.transpose(TURNS[turn])
    scaled = opaque.resize((geometry.width, geometry.height), Image.Resampling.LANCZOS)
    return _tensor(scaled.crop(geometry.box))


def _draft(image: Image.Image, geometry: CropGeometry, turn: int) -> None:
    """Lets the decoder halve large JPEGs itself, to not less than DRAFT_MARGIN times the need.

    image: changed in place, as Pillow has it; other formats are not.
    """
    wanted = (DRAFT_MARGIN * geometry.width, DRAFT_MARGIN * geometry.height)
    image.draft(None, wanted[::-1] if turn in QUARTER_TURNS else wanted)


def _opaque(image: Image.Image) -> Image.Image:
    """The picture without transparency: "RGB", or "F" from 0 to 65535 where it has 16 bits.

    What is transparent becomes white, as on a page: black would be learnt as a background.
    Animated pictures give their first frame.
    """
    if image.mode in DEEP_MODES:
        return Image.fromarray(np.asarray(image).astype(np.float32))
    if not image.has_transparency_data:
        return image.convert("RGB")
    page = Image.new("RGBA", image.size, "white")
    page.alpha_composite(image.convert("RGBA"))
    return page.convert("RGB")


def _tensor(image: Image.Image) -> Tensor:
    """(3, H, W), float32 in [-1, 1], contiguous: kernels may round other layouts otherwise."""
    pixels = torch.from_numpy(np.array(image))
    if image.mode == "F":
        # Lanczos overshoots at edges; "RGB" is clipped by Pillow, "F" is not.
        grey = pixels.clamp(0, DEEP_WHITE) * (2 / DEEP_WHITE) - 1
        return grey.expand(3, -1, -1).contiguous()
    return (pixels.permute(2, 0, 1).to(torch.float32) / 127.5 - 1).contiguous()
