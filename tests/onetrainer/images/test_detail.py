"""Sharp images are distinguished from blurred and from enlarged ones."""

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from onetrainer.checks.item_checks import MIN_DETAIL, MIN_STRONG_DETAIL, TRACE
from onetrainer.images.detail import Detail, detail_of
from tests.each import each
from tests.onetrainer.generated_images import as_jpeg, enlarged, leaves, scaled


def detail(image):
    found = detail_of(image.convert("L"))
    assert found is not None
    return found


def blurred(image, radius):
    return image.filter(ImageFilter.GaussianBlur(radius))


def is_traced(found):
    return found.trace >= TRACE and found.strong < MIN_STRONG_DETAIL


SHARP = {
    "itself": lambda image: image,
    "saved well": lambda image: as_jpeg(image, 90),
    "saved badly": lambda image: as_jpeg(image, 30),
    "made smaller": lambda image: scaled(image, 1 / 1.7),
}


@each("change", SHARP)
@each("seed", range(2))
def test_sharp_image_is_neither_blurred_nor_enlarged(change, seed):
    found = detail(SHARP[change](leaves(seed, 512)))
    assert found.finest > MIN_DETAIL
    assert not is_traced(found)
    assert found.block == 1


@each("seed", range(2))
def test_blurred_image_has_no_fine_detail(seed):
    for radius in (1.5, 3):
        found = detail(blurred(leaves(seed, 512), radius))
        assert found.finest < MIN_DETAIL
        assert not is_traced(found)
    assert detail(as_jpeg(blurred(leaves(seed, 512), 2), 75)).finest < MIN_DETAIL


def test_soft_background_does_not_make_an_image_blurred():
    image = blurred(leaves(1, 768), 8)
    image.paste(leaves(2, 768).crop((200, 200, 560, 560)), (200, 200))
    assert detail(image).finest > MIN_DETAIL


@each("factor", [2.5, 3])
@each("seed", [2, 3])
def test_enlarged_image_has_traces_even_after_it_was_saved_again(factor, seed):
    image = enlarged(leaves(seed, 768), factor, Image.Resampling.BILINEAR)
    assert is_traced(detail(image))
    assert is_traced(detail(as_jpeg(image, 80)))
    assert is_traced(detail(enlarged(leaves(seed, 768), factor, Image.Resampling.BICUBIC)))


@each("side", [2, 3, 5])
def test_image_of_blocks_is_known_by_their_side(side):
    small = leaves(1, 120)
    large = small.resize((120 * side, 120 * side), Image.Resampling.NEAREST)
    assert detail(large).block == side


def test_flat_illustration_is_not_made_of_blocks():
    image = Image.new("RGB", (400, 400), "white")
    draw = ImageDraw.Draw(image)
    for place in range(12):
        draw.rectangle((17 * place, 23 * place, 17 * place + 31, 23 * place + 45), fill="black")
    assert detail(image).block == 1


def test_nothing_is_said_of_small_and_of_plain_images():
    assert detail_of(leaves(1, 127).convert("L")) is None
    assert detail_of(Image.new("L", (500, 500), 90)) is None
    faint = np.random.default_rng(0).normal(128, 1, (300, 300)).astype(np.uint8)
    assert detail_of(Image.fromarray(faint)) is None


def test_very_large_image_is_analyzed_in_parts():
    wide = Image.new("L", (6000, 200))
    wide.paste(leaves(1, 200).convert("L"), (5800, 0))
    assert detail(wide).finest > MIN_DETAIL


def test_detail_survives_being_packed():
    found = Detail(0.5, 0.25, 3.5, 4)
    assert Detail.unpack(found.pack()) == found
