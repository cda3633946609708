"""How small a picture becomes as JPEG: smoothly, for a gradient, and truly, by Pillow.

Source: ITU-T T.81 (1992), the baseline process with 4:2:0 and the tables of its Annex K; JFIF 1.02
for the colors. Black et al. 2023, arXiv:2305.13301, have the size as a reward.
"""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor, nn

from modules.memory.to_device import sent
from modules.rewards.measures import LUMA, luma

_BLOCK = 8
_LEVELS = 255
_MIDDLE = 128  # of the levels: taken off before the transform
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
# What a block without any detail takes: the codes for no change of the first coefficient, and for
# the block's end, in Annex K's tables K.3 to K.6.
_LUMA_BLOCK_BITS, _CHROMA_BLOCK_BITS = 2 + 4, 2 + 2
# So many steps cost the first bit. Fitted to libjpeg's sizes of photographs and of noise with all
# kinds of spectra: at qualities from 30 to 95 the smooth size is within a quarter of them.
_FIRST_BIT = 0.4


@dataclass(frozen=True)
class Compressibility:
    """Minus the bits a pixel that a picture would take as JPEG, with a smooth gradient.

    quality: from 1 to 100, as libjpeg scales the tables.
    """

    quality: int = 80

    @property
    def has_gradient(self) -> bool:
        return True

    def own_modules(self) -> nn.Module:
        return nn.Module()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        del prompts
        return -smooth_bits(images, self.quality)


@dataclass(frozen=True)
class JpegSize:
    """Minus the bits a pixel of the picture's JPEG file, by Pillow; without a gradient.

    The whole file counts, with the 600 bytes or so that every file begins with.
    quality: from 1 to 100.
    """

    quality: int = 80

    @property
    def has_gradient(self) -> bool:
        return False

    def own_modules(self) -> nn.Module:
        return nn.Module()

    def score(self, images: Tensor, prompts: Sequence[str]) -> Tensor:
        del prompts
        if images.is_meta:  # in a forecast: nothing to write
            return images.new_zeros(len(images))
        levels = (images.detach() * _LEVELS).round().to(torch.uint8)
        rows = levels.permute(0, 2, 3, 1).contiguous().cpu()  # waits for the card: Pillow is here
        return _beside(images, [-_true_bits(row, self.quality) for row in rows])


def smooth_bits(images: Tensor, quality: int) -> Tensor:
    """About how many bits a pixel a JPEG takes, (B,), smooth in the pictures.

    A coefficient of c quantization steps counts as log2(1 + (c / 0.4)²) bits, in place of what its
    rounded value takes in Huffman's code; of each block's first one the difference from the block
    before counts, as in the code. Without the file's head. pictures: (B, 3, H, W), in [0, 1].
    """
    height, width = images.shape[-2:]
    light, blueness, redness = color_planes(images)
    bits = _plane_bits(light, luma_steps(quality), _LUMA_BLOCK_BITS)
    for plane in (blueness, redness):
        bits = bits + _plane_bits(_halved(plane), chroma_steps(quality), _CHROMA_BLOCK_BITS)
    return bits / (height * width)


def luma_steps(quality: int) -> tuple[tuple[int, ...], ...]:
    """The quantization steps of luma, 8 x 8, of libjpeg's quality."""
    return _scaled(_LUMA_STEPS, quality)


def chroma_steps(quality: int) -> tuple[tuple[int, ...], ...]:
    """The quantization steps of chroma, 8 x 8, of libjpeg's quality."""
    return _scaled(_CHROMA_STEPS, quality)


def color_planes(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Y, Cb and Cr, (B, H, W) each, in levels of 255 around 0, as JFIF has them.

    pictures: (B, 3, H, W), in [0, 1].
    """
    levels = images * _LEVELS
    light = luma(levels)
    return (
        light - _MIDDLE,
        (levels[:, 2] - light) / (2 * (1 - LUMA[2])),
        (levels[:, 0] - light) / (2 * (1 - LUMA[0])),
    )


def block_coefficients(plane: Tensor) -> Tensor:
    """The cosine transform of each 8 x 8 block, (B, blocks, 8, 8), blocks row by row.

    Orthonormal, as T.81's own (A.3.3). plane: (B, H, W); its last row and column are repeated up to
    whole blocks.
    """
    plane = _padded(plane, _BLOCK)
    batch, height, width = plane.shape
    blocks = plane.reshape(batch, height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK).transpose(2, 3)
    waves = _beside(plane, _waves())
    return (waves @ blocks @ waves.T).flatten(1, 2)


def _halved(plane: Tensor) -> Tensor:
    """The mean of each 2 x 2 pixels: chroma of 4:2:0."""
    plane = _padded(plane, 2)
    batch, height, width = plane.shape
    return plane.reshape(batch, height // 2, 2, width // 2, 2).mean(dim=(2, 4))


def _plane_bits(plane: Tensor, steps: tuple[tuple[int, ...], ...], block_bits: int) -> Tensor:
    """(B,), in all."""
    counted = block_coefficients(plane) / _beside(plane, steps)
    first = counted[:, :, 0, 0]
    change = first.diff(dim=1, prepend=torch.zeros_like(first[:, :1]))
    counted = torch.cat([change[:, :, None], counted.flatten(2)[:, :, 1:]], dim=2)
    bits = torch.log2(1 + (counted / _FIRST_BIT).square())
    return bits.sum(dim=(1, 2)) + block_bits * first.shape[1]


def _scaled(steps: tuple[tuple[int, ...], ...], quality: int) -> tuple[tuple[int, ...], ...]:
    """As libjpeg's jpeg_quality_scaling and jpeg_add_quant_table do, baseline enforced."""
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality
    return tuple(
        tuple(min(max((step * percent + 50) // 100, 1), _LEVELS) for step in row) for row in steps
    )


def _waves() -> list[list[float]]:
    """The cosine transform's matrix, (frequency, place)."""
    return [
        [
            math.sqrt((1 if frequency == 0 else 2) / _BLOCK)
            * math.cos((2 * place + 1) * frequency * math.pi / (2 * _BLOCK))
            for place in range(_BLOCK)
        ]
        for frequency in range(_BLOCK)
    ]


def _padded(plane: Tensor, multiple: int) -> Tensor:
    """Repeats the last column and row, as libjpeg does; (B, H, W), both then multiples.

    Not by torch's own padding, whose gradient on a card differs from one time to the next.
    """
    height, width = plane.shape[-2:]
    right, below = -width % multiple, -height % multiple
    if right:
        plane = torch.cat([plane, plane[:, :, -1:].expand(-1, -1, right)], dim=2)
    if below:
        plane = torch.cat([plane, plane[:, -1:].expand(-1, below, -1)], dim=1)
    return plane


def _beside(tensor: Tensor, values: Sequence[float] | Sequence[Sequence[float]]) -> Tensor:
    """Plain numbers as a tensor of the same device and dtype."""
    return sent(torch.tensor(values, dtype=tensor.dtype), tensor.device)


def _true_bits(levels: Tensor, quality: int) -> float:
    """Bits a pixel of the file. levels: (H, W, 3), uint8, on the CPU."""
    file = io.BytesIO()
    Image.fromarray(levels.numpy()).save(file, "JPEG", quality=quality, subsampling="4:2:0")
    return 8 * file.tell() / (levels.shape[0] * levels.shape[1])
