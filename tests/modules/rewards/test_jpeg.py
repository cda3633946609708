"""The smooth size of JPEGs against Pillow's files, T.81's formulas and finite differences."""

import io
import math

import numpy
import pytest
import torch
from PIL import Image

from modules.rewards.jpeg import (
    block_coefficients,
    compressibility,
    jpeg_size,
    quantization_steps,
    smooth_bits,
)
from tests.close import FLOAT64, near
from tests.each import each


def varied(number, *, side=64, seed=0):
    """Noise from pink to nearly white, from gray to colored, from pale to harsh: 8-bit levels."""
    generator = torch.Generator().manual_seed(seed)
    frequency = torch.fft.fftfreq(side, dtype=torch.float64)
    radius = (frequency[:, None] ** 2 + frequency**2).sqrt()
    radius[0, 0] = 1 / side
    made = []
    for _ in range(number):
        slope, tint, strength = torch.rand(3, generator=generator).tolist()
        noise = torch.randn(4, side, side, generator=generator, dtype=torch.float64)
        spectrum = torch.fft.fft2(noise) * radius ** -(0.3 + 2.5 * slope)
        layers = torch.fft.ifft2(spectrum).real
        layers = layers / layers.std(dim=(1, 2), keepdim=True)
        mixed = (1 - tint) * layers[:1] + tint * layers[1:]
        middle = 0.2 + 0.6 * torch.rand(3, 1, 1, generator=generator)
        made.append((0.02 + 0.35 * strength) * mixed + middle)
    return (torch.stack(made).clamp(0, 1) * 255).round().float() / 255


def as_file(image, quality):
    levels = (image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(levels).save(file, "JPEG", quality=quality, subsampling="4:2:0")
    return file.getvalue()


def scan_bits(image, quality):
    """Bits a pixel of a file's coded image: what follows the 14 bytes of its last header."""
    file = as_file(image, quality)
    coded = len(file) - file.index(b"\xff\xda") - 14 - len(b"\xff\xd9")
    return 8 * coded / image[0].numel()


def ranks(values):
    return numpy.argsort(numpy.argsort(values))


@pytest.mark.parametrize("quality", [30, 95])
def test_smooth_size_ranks_images_as_pillow_does_and_is_near_it(quality):
    shown = varied(40)
    smooth = smooth_bits(shown, quality).numpy()
    true = numpy.array([scan_bits(image, quality) for image in shown])
    assert true.max() > 5 * true.min()  # varied indeed
    assert numpy.corrcoef(ranks(smooth), ranks(true))[0, 1] > 0.99
    assert abs(numpy.log(smooth / true)).max() < math.log(1.25)


def test_flat_image_takes_as_many_bits_as_in_a_file():
    middle = torch.full((3, 32, 96), 128 / 255)
    # 128 is 0 there, up to float32's rounding.
    smooth = float(smooth_bits(middle[None], 80))
    assert smooth == near(scan_bits(middle, 80)) == near(0.125)


def test_following_the_gradient_makes_the_true_file_smaller():
    shown = varied(4, seed=3).requires_grad_()
    before = jpeg_size(shown, 80)
    for _ in range(10):
        (slope,) = torch.autograd.grad(compressibility(shown, 80).sum(), shown)
        size = slope.square().mean(dim=(1, 2, 3), keepdim=True).sqrt()
        shown = (shown + 0.005 * slope / size).clamp(0, 1).detach().requires_grad_()
    assert (jpeg_size(shown, 80) > 0.95 * before).all()


def test_gradient_equals_differences_of_the_values_also_beyond_whole_blocks():
    generator = torch.Generator().manual_seed(0)
    shown = torch.rand(2, 3, 9, 11, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: 100 * smooth_bits(x, 80), shown)


@each("level", [0.0, 0.5, 1.0])
def test_gradient_at_flat_images_is_finite(level):
    shown = torch.full((1, 3, 24, 24), level, requires_grad=True)
    smooth_bits(shown, 80).sum().backward()
    assert shown.grad.isfinite().all()


def test_quantization_steps_are_those_in_pillows_files():
    for quality in (1, 30, 49, 50, 51, 80, 100):
        with Image.open(io.BytesIO(as_file(torch.rand(3, 16, 16), quality))) as opened:
            tables = opened.quantization
        flat = [sum(steps, ()) for steps in quantization_steps(quality)]
        assert [tuple(tables[0]), tuple(tables[1])] == flat, quality


def test_coefficients_are_those_of_the_standards_formula():
    plane = torch.randn(1, 8, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours = block_coefficients(plane)
    for block in range(2):
        for v, u in [(0, 0), (0, 3), (5, 0), (2, 7), (7, 7)]:
            total = sum(
                float(plane[0, y, 8 * block + x])
                * math.cos((2 * x + 1) * u * math.pi / 16)
                * math.cos((2 * y + 1) * v * math.pi / 16)
                for x in range(8)
                for y in range(8)
            )
            first = math.sqrt(0.5)
            expected = total / 4 * (first if u == 0 else 1) * (first if v == 0 else 1)
            assert float(ours[0, block, v, u]) == near(expected, eps=FLOAT64, of=1.0)


def test_jpeg_size_is_that_of_the_file_and_has_no_gradient():
    shown = varied(2).requires_grad_()
    scores = jpeg_size(shown, 40)
    lengths = [len(as_file(image, 40)) for image in shown.detach()]
    assert scores.tolist() == near([-8 * length / 64**2 for length in lengths])
    assert not scores.requires_grad
    between = (shown + 0.4 / 255, shown - 0.4 / 255)
    for other in between:
        assert torch.equal(jpeg_size(other, 40), scores)
