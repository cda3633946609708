"""Icons of the welcome page, drawn as vectors in the colors of the theme."""

from collections.abc import Callable

from ui.theme.palette import Role
from ui.widgets.drawing import Drawing

Draw = Callable[[Drawing], None]


def draw_demo(drawing: Drawing) -> None:
    """Draw a play button."""
    px = drawing.widgets.px
    drawing.dot(px(30), px(32), px(28), "selected")
    _fill(drawing, (24, 18, 24, 46, 46, 32))


def draw_images(drawing: Drawing) -> None:
    """Draw a stack of images."""
    px = drawing.widgets.px
    stack: tuple[tuple[int, Role], ...] = ((16, "raised"), (8, "hover"), (0, "selected"))
    for shift, role in stack:
        box = (px(2 + shift), px(18 - shift), px(56 + shift), px(60 - shift))
        drawing.box(*box, role, outline="card", width=px(2))
    _fill(drawing, (8, 55, 24, 34, 33, 45, 39, 39, 50, 55))
    drawing.dot(px(44), px(28), px(4), "warning")


def draw_preset(drawing: Drawing) -> None:
    """Draw three sliders."""
    px = drawing.widgets.px
    for y, knob in ((14, 40), (32, 18), (50, 50)):
        drawing.line((px(4), px(y), px(62), px(y)), "hover", width=px(5), cap="round")
        drawing.line((px(4), px(y), px(knob), px(y)), "accent", width=px(5), cap="round")
        drawing.dot(px(knob), px(y), px(8), "card")
        drawing.dot(px(knob), px(y), px(6), "text")


def _fill(drawing: Drawing, corners: tuple[int, ...]) -> None:
    color = drawing.widgets.theme.palette["accent"]
    scaled = [drawing.widgets.px(number) for number in corners]
    drawing.canvas.create_polygon(scaled, fill=color, outline="")
