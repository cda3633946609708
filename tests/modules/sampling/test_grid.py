import numpy
import pytest
from PIL import Image, ImageFont

from modules.sampling.grid import GAP, TEXT_SIZE, draw_grid, fit, shorten

RED, BLUE = (255, 0, 0), (0, 0, 255)
FONT = ImageFont.load_default(TEXT_SIZE)
LONG = "a photo of a very long sentence about a cat on a mat " * 6


def images(*colors, size=(160, 64)):
    return [Image.new("RGB", size, color) for color in colors]


def boxes(page, color):
    """The places of a color: (left, top, right, bottom)."""
    places = numpy.argwhere((numpy.asarray(page) == color).all(axis=-1))
    (top, left), (bottom, right) = places.min(axis=0), places.max(axis=0) + 1
    return left, top, right, bottom


def test_images_stand_in_their_row_and_column_untouched():
    page = draw_grid([images(RED, BLUE)], rows=["a cat"], columns=["seed 1", "seed 2"])
    red, blue = boxes(page, RED), boxes(page, BLUE)
    assert (red[2] - red[0], red[3] - red[1]) == (160, 64)
    assert (blue[0] - red[2], blue[1]) == (GAP, red[1])
    assert page.crop(red).getcolors() == [(160 * 64, RED)]


def test_rows_stand_below_each_other_with_their_labels():
    page = draw_grid([images(RED), images(BLUE)], rows=["a cat", LONG], columns=["seed 1"])
    red, blue = boxes(page, RED), boxes(page, BLUE)
    assert blue[1] - red[3] >= 3 * TEXT_SIZE
    label = page.crop((0, red[3], page.width, blue[1]))
    assert len(label.getcolors(100000)) > 2  # something is written there
    assert blue[3] <= page.height


@pytest.mark.parametrize("width", [60, 300])
def test_long_prompts_are_shortened_to_three_lines_that_fit(width):
    lines = shorten(LONG, FONT, width)
    assert len(lines) == 3
    assert lines[-1].endswith("…")
    assert all(FONT.getlength(line) <= width for line in lines)
    assert LONG.startswith(lines[0].rstrip("…"))


def test_short_prompts_stay_whole():
    assert shorten("a cat, on a mat", FONT, 400) == ["a cat, on a mat"]
    assert shorten("", FONT, 400) == []


def test_text_without_blanks_is_cut():
    assert fit("x" * 100, FONT, 100).endswith("x…")
    assert all(FONT.getlength(line) <= 100 for line in shorten("x" * 100 + " y", FONT, 100))


def test_prompts_of_any_script_are_accepted():
    draw_grid([images(RED)], rows=["ein Bär 🐻 猫"], columns=["seed 1"])
