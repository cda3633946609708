"""Colors of the window, dark and light."""

from collections.abc import Mapping
from typing import Literal

Mode = Literal["dark", "light"]
Role = Literal[
    "window",
    "side",
    "card",
    "field",
    "raised",
    "hover",
    "pressed",
    "line",
    "border",
    "text",
    "dim",
    "accent",
    "fill",
    "fill_hover",
    "fill_pressed",
    "on_fill",
    "danger",
    "danger_fill",
    "danger_hover",
    "danger_pressed",
    "warning",
    "good",
    "selected",
    "plot",
    "validation",
    "validation_band",
]


Palette = Mapping[Role, str]
"""Colors of one appearance by role.

Texts (text, dim, accent, danger, warning, good, validation) have a contrast of at least 4.5:1 on
window, side, card and field; borders of fields have 3:1. `line` only divides and may be fainter.
"""

# Of each role, dark and light.
_COLORS: dict[Role, tuple[str, str]] = {
    "window": ("#14161b", "#f2f4f7"),
    "side": ("#0f1115", "#e6e9ee"),
    "card": ("#1c1f26", "#ffffff"),
    "field": ("#14161b", "#ffffff"),
    "raised": ("#2a2e38", "#d8dde7"),
    "hover": ("#353a46", "#c6cdd9"),
    "pressed": ("#434957", "#b3bbc9"),
    "line": ("#2b2f39", "#d9dde5"),
    "border": ("#6c7482", "#7f8694"),
    "text": ("#e9ebef", "#1a1d23"),
    "dim": ("#a4acb9", "#565d6a"),
    "accent": ("#8fb1ff", "#1d55c4"),
    "fill": ("#3567d6", "#2a5fd0"),
    "fill_hover": ("#2c59c0", "#2250b4"),
    "fill_pressed": ("#244a9f", "#1b4296"),
    "on_fill": ("#ffffff", "#ffffff"),
    "danger": ("#ff8d85", "#b0251d"),
    "danger_fill": ("#b3372f", "#b3261e"),
    "danger_hover": ("#98302a", "#981f19"),
    "danger_pressed": ("#7f2822", "#7f1a15"),
    "warning": ("#f0b955", "#815200"),
    "good": ("#74d08f", "#136b31"),
    "selected": ("#25365e", "#d3e0fb"),
    "plot": ("#3d5387", "#a9c0ee"),
    "validation": ("#ff9f66", "#9a3f04"),
    "validation_band": ("#54392a", "#f7dcc8"),
}
DARK: Palette = {role: dark for role, (dark, _) in _COLORS.items()}
LIGHT: Palette = {role: light for role, (_, light) in _COLORS.items()}

# Colors of the parts of a whole, distinguishable with any color vision, in their order in a bar.
# Both appearances use the same hues; each has 3:1 on a card. The last, a gray, is for the rest.
# Source of the order: Okabe & Ito 2008, "Color Universal Design", with lightness set for a card.
SERIES_COLORS: dict[Mode, tuple[str, ...]] = {
    "dark": (
        "#5b8def",
        "#e8a33d",
        "#3fb8a5",
        "#d873b4",
        "#9fb84d",
        "#a58af0",
        "#e0705c",
        "#8b95a5",
    ),
    "light": (
        "#2f66d0",
        "#c27803",
        "#0c8577",
        "#b83a8b",
        "#5d8a0c",
        "#7350d1",
        "#c04a35",
        "#6d7583",
    ),
}

PALETTES: dict[Mode, Palette] = {"dark": DARK, "light": LIGHT}
