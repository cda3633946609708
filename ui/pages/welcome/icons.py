"""Icons of the welcome page, drawn as vectors in the colors of the theme."""

import tkinter as tk
from collections.abc import Callable

from ui.widgets.widgets import Kit

Draw = Callable[[tk.Canvas, Kit], None]


def draw_demo(canvas: tk.Canvas, kit: Kit) -> None:
    """Draw a play button."""
    palette, px = kit.theme.palette, kit.px
    canvas.create_oval(px(2), px(4), px(58), px(60), fill=palette.selected, outline="")
    canvas.create_polygon(
        (px(24), px(18), px(24), px(46), px(46), px(32)), fill=palette.accent, outline=""
    )


def draw_images(canvas: tk.Canvas, kit: Kit) -> None:
    """Draw a stack of images."""
    palette, px = kit.theme.palette, kit.px
    for shift, color in ((16, palette.raised), (8, palette.hover), (0, palette.selected)):
        canvas.create_rectangle(
            px(2 + shift),
            px(18 - shift),
            px(56 + shift),
            px(60 - shift),
            fill=color,
            outline=palette.card,
            width=px(2),
        )
    hills = (8, 55, 24, 34, 33, 45, 39, 39, 50, 55)
    canvas.create_polygon([px(number) for number in hills], fill=palette.accent, outline="")
    canvas.create_oval(px(40), px(24), px(48), px(32), fill=palette.warning, outline="")


def draw_preset(canvas: tk.Canvas, kit: Kit) -> None:
    """Draw three sliders."""
    palette, px = kit.theme.palette, kit.px
    for y, knob in ((14, 40), (32, 18), (50, 50)):
        for end, color in ((62, palette.hover), (knob, palette.accent)):
            canvas.create_line(
                px(4), px(y), px(end), px(y), fill=color, width=px(5), capstyle="round"
            )
        canvas.create_oval(
            px(knob - 7),
            px(y - 7),
            px(knob + 7),
            px(y + 7),
            fill=palette.text,
            outline=palette.card,
            width=px(2),
        )
