from itertools import product

from tests.ui.theme.contrast import contrast
from ui.theme.palette import PALETTES, SERIES_COLORS

GROUNDS = ("window", "side", "card", "field")
TEXTS = ("text", "dim", "accent", "danger", "warning", "good", "validation")
WAYS = ("", "_hover", "_pressed")
LEAST_TEXT = 4.5
LEAST_BORDER = 3.0


def test_every_text_and_edge_can_be_seen_on_every_ground():
    seen = [
        (LEAST_TEXT, TEXTS, [*GROUNDS, "raised", "selected"]),
        (LEAST_TEXT, ["text"], ["hover", "pressed"]),
        (LEAST_TEXT, ["on_fill"], [f"fill{way}" for way in WAYS]),
        (LEAST_TEXT, ["on_fill"], ["danger_fill", *(f"danger{way}" for way in WAYS if way)]),
        (LEAST_BORDER, ["border"], set(GROUNDS) - {"side"}),  # no field stands there
    ]
    for (mode, palette), (least, above, below) in product(PALETTES.items(), seen):
        for role, ground in product(above, below):
            assert contrast(palette[role], palette[ground]) >= least, (mode, role, ground)


def test_parts_of_a_bar_are_visible_on_a_card():
    for mode in PALETTES:
        assert len(set(SERIES_COLORS[mode])) == len(SERIES_COLORS["dark"]), mode
        for color in SERIES_COLORS[mode]:
            assert contrast(color, PALETTES[mode]["card"]) >= LEAST_BORDER
