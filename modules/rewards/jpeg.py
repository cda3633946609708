"""JPEG file size of images: a differentiable approximation, and the true size by Pillow.

Source: ITU-T T.81 (1992), the baseline process with 4:2:0 and the tables of its Annex K; JFIF 1.02
for the colors. Black et al. 2023, arXiv:2305.13301, use the size as a reward.
"""

import io
import math
from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor

from modules.memory.to_device import to_device
from modules.rewards.measures import LUMA, luma

Steps = tuple[tuple[int, ...], ...]
_BLOCK = 8
_LEVELS = 255
_MIDDLE = 128  # of the levels: subtracted before the transform
# Annex K, tables K.1 and K.2: steps of luma and chroma, row by row from low to high frequencies.
_LUMA_STEPS = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
_CHROMA_STEPS = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *4 * ((99,) * _BLOCK,),
)
# The bits of a block without any detail: the codes of an unchanged first coefficient and of the
# block's end, in Annex K's tables K.3 to K.6.
_LUMA_BLOCK_BITS, _CHROMA_BLOCK_BITS = 2 + 4, 2 + 2
# Quantization steps that cost the first bit. Fitted to libjpeg's sizes of photographs and of noise
# of various spectra: at qualities from 30 to 95 the approximation is within a quarter of them.
_FIRST_BIT = 0.4


def compressibility(images: Tensor, quality: int) -> Tensor:
    """Compute minus the approximate bits per pixel of a JPEG, (B,), with a smooth gradient.

    quality: from 1 to 100, as libjpeg scales the tables.
    """
    return -smooth_bits(images, quality)


def jpeg_size(images: Tensor, quality: int) -> Tensor:
    """Compute minus the bits per pixel of JPEG files by Pillow, (B,), without a gradient.

    Counts the whole file, with the header of about 600 bytes.
    """
    if images.is_meta:  # in a forecast: nothing to encode
        return images.new_zeros(len(images))
    levels = (images.detach() * _LEVELS).round().to(torch.uint8)
    rows = levels.permute(0, 2, 3, 1).contiguous().cpu()  # waits for the GPU: Pillow needs it
    return _like(images, [-_file_bits(row, quality) for row in rows])


def smooth_bits(images: Tensor, quality: int) -> Tensor:
    """Approximate the bits per pixel of a JPEG, (B,), differentiably.

    A coefficient of c quantization steps counts as log2(1 + (c / 0.4)²) bits, instead of the bits
    of its rounded value in the Huffman code; of each block's first one the difference from the
    previous block counts, as in the code. The file's header is not included.

    Args:
        images: (B, 3, H, W), in [0, 1].
        quality: From 1 to 100.
    """
    height, width = images.shape[-2:]
    y, cb, cr = color_planes(images)
    luma_steps, chroma_steps = quantization_steps(quality)
    bits = _plane_bits(y, luma_steps, _LUMA_BLOCK_BITS)
    for plane in (cb, cr):
        even = _padded(plane, 2)
        # The mean of each 2 x 2 pixels: chroma of 4:2:0.
        halves = even.reshape(len(even), even.shape[1] // 2, 2, even.shape[2] // 2, 2)
        half = halves.mean(dim=(2, 4))
        bits = bits + _plane_bits(half, chroma_steps, _CHROMA_BLOCK_BITS)
    return bits / (height * width)


def quantization_steps(quality: int) -> tuple[Steps, Steps]:
    """Return the quantization steps of luma and of chroma, 8 x 8, at a libjpeg quality.

    As libjpeg's jpeg_quality_scaling and jpeg_add_quant_table compute them, baseline enforced.
    """
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality

    def scaled(steps: Steps) -> Steps:
        return tuple(
            tuple(min(max((step * percent + 50) // 100, 1), _LEVELS) for step in row)
            for row in steps
        )

    return scaled(_LUMA_STEPS), scaled(_CHROMA_STEPS)


def color_planes(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute Y, Cb and Cr, (B, H, W) each, in levels of 255 around 0, as JFIF defines them.

    images: (B, 3, H, W), in [0, 1].
    """
    levels = images * _LEVELS
    y = luma(levels)
    return (
        y - _MIDDLE,
        (levels[:, 2] - y) / (2 * (1 - LUMA[2])),
        (levels[:, 0] - y) / (2 * (1 - LUMA[0])),
    )


def block_coefficients(plane: Tensor) -> Tensor:
    """Compute the cosine transform of each 8 x 8 block, (B, blocks, 8, 8), blocks row by row.

    Orthonormal, as in T.81 (A.3.3). plane: (B, H, W); its last row and column are repeated to fill
    whole blocks.
    """
    plane = _padded(plane, _BLOCK)
    batch, height, width = plane.shape
    blocks = plane.reshape(batch, height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK).transpose(2, 3)
    cosines = _like(plane, _cosine_matrix())
    return (cosines @ blocks @ cosines.T).flatten(1, 2)


def _plane_bits(plane: Tensor, steps: Steps, block_bits: int) -> Tensor:
    """Approximate the bits of a plane, (B,)."""
    coefficients = block_coefficients(plane) / _like(plane, steps)
    first = coefficients[:, :, 0, 0]
    change = first.diff(dim=1, prepend=torch.zeros_like(first[:, :1]))
    counted = torch.cat([change[:, :, None], coefficients.flatten(2)[:, :, 1:]], dim=2)
    bits = torch.log2(1 + (counted / _FIRST_BIT).square())
    return bits.sum(dim=(1, 2)) + block_bits * first.shape[1]


def _cosine_matrix() -> list[list[float]]:
    """Return the cosine transform's matrix, (frequency, position)."""
    return [
        [
            math.sqrt((1 if frequency == 0 else 2) / _BLOCK)
            * math.cos((2 * position + 1) * frequency * math.pi / (2 * _BLOCK))
            for position in range(_BLOCK)
        ]
        for frequency in range(_BLOCK)
    ]


def _padded(plane: Tensor, multiple: int) -> Tensor:
    """Repeat the last column and row, as libjpeg does, up to a multiple of a size; (B, H, W).

    Not by torch's own padding, whose gradient on a GPU is not deterministic.
    """
    height, width = plane.shape[-2:]
    right, bottom = -width % multiple, -height % multiple
    if right:
        plane = torch.cat([plane, plane[:, :, -1:].expand(-1, -1, right)], dim=2)
    if bottom:
        plane = torch.cat([plane, plane[:, -1:].expand(-1, bottom, -1)], dim=1)
    return plane


def _like(tensor: Tensor, values: Sequence[float] | Sequence[Sequence[float]]) -> Tensor:
    """Create a tensor of numbers with another's device and dtype."""
    return to_device(torch.tensor(values, dtype=tensor.dtype), tensor.device)


def _file_bits(levels: Tensor, quality: int) -> float:
    """Return the bits per pixel of the file. levels: (H, W, 3), uint8, on the CPU."""
    file = io.BytesIO()
    Image.fromarray(levels.numpy()).save(file, "JPEG", quality=quality, subsampling="4:2:0")
    return 8 * file.tell() / (levels.shape[0] * levels.shape[1])
