import pytest

from ui.theme.palette import PALETTES, SERIES_COLORS, contrast

GROUNDS = ("window", "side", "card", "field")
TEXTS = ("text", "dim", "accent", "danger", "warning", "good", "validation")
LEAST_TEXT = 4.5
LEAST_BORDER = 3.0


@pytest.mark.parametrize("mode", PALETTES)
@pytest.mark.parametrize("ground", [*GROUNDS, "raised", "selected"])
@pytest.mark.parametrize("text", TEXTS)
def test_every_text_can_be_read_on_every_ground(mode, ground, text):
    palette = PALETTES[mode]
    assert contrast(palette[text], palette[ground]) >= LEAST_TEXT


@pytest.mark.parametrize("mode", PALETTES)
def test_words_on_filled_buttons_can_be_read(mode):
    palette = PALETTES[mode]
    for fill in ("fill", "fill_hover", "danger_fill"):
        assert contrast(palette.on_fill, palette[fill]) >= LEAST_TEXT


@pytest.mark.parametrize("mode", PALETTES)
@pytest.mark.parametrize("ground", GROUNDS)
def test_borders_of_fields_can_be_seen(mode, ground):
    assert contrast(PALETTES[mode].border, PALETTES[mode][ground]) >= LEAST_BORDER or (
        ground == "side"  # no field stands there
    )


@pytest.mark.parametrize("mode", PALETTES)
def test_parts_of_a_bar_can_be_seen_on_a_card(mode):
    assert len(set(SERIES_COLORS[mode])) == len(SERIES_COLORS["dark"])
    for color in SERIES_COLORS[mode]:
        assert contrast(color, PALETTES[mode].card) >= LEAST_BORDER


def test_contrast_of_black_and_white_is_21():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
