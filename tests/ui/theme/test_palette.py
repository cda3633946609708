from itertools import product

from ui.theme.palette import PALETTES, SERIES_COLORS, contrast

GROUNDS = ("window", "side", "card", "field")
TEXTS = ("text", "dim", "accent", "danger", "warning", "good", "validation")
LEAST_TEXT = 4.5
LEAST_BORDER = 3.0


def test_every_text_can_be_read_on_every_ground():
    for mode, palette in PALETTES.items():
        for ground, text in product([*GROUNDS, "raised", "selected"], TEXTS):
            assert contrast(palette[text], palette[ground]) >= LEAST_TEXT, (mode, ground, text)


def test_text_on_filled_buttons_can_be_read():
    for mode in PALETTES:
        palette = PALETTES[mode]
        for fill in ("fill", "fill_hover", "danger_fill"):
            assert contrast(palette["on_fill"], palette[fill]) >= LEAST_TEXT


def test_borders_of_fields_can_be_seen():
    for mode, palette in PALETTES.items():
        for ground in set(GROUNDS) - {"side"}:  # no field stands there
            assert contrast(palette["border"], palette[ground]) >= LEAST_BORDER, (mode, ground)


def test_parts_of_a_bar_can_be_seen_on_a_card():
    for mode in PALETTES:
        assert len(set(SERIES_COLORS[mode])) == len(SERIES_COLORS["dark"]), mode
        for color in SERIES_COLORS[mode]:
            assert contrast(color, PALETTES[mode]["card"]) >= LEAST_BORDER
