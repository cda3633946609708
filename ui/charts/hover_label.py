"""Values shown next to the pointer over a chart."""

import tkinter as tk

from ui.charts.axes import Frame
from ui.widgets.widgets import Kit


def draw_hover_label(kit: Kit, canvas: tk.Canvas, frame: Frame, x: float, text: str) -> None:
    """Draw text in a box next to a column, on the side with more space.

    All items have the tag "pointer".
    """
    palette, px = kit.theme.palette, kit.px
    is_left = x < (frame.left + frame.right) / 2
    item = canvas.create_text(
        x + px(10) if is_left else x - px(10),
        frame.top + px(4),
        text=text,
        anchor="nw" if is_left else "ne",
        font="OneTrainerSmall",
        fill=palette.text,
        tags="pointer",
    )
    left, top, right, bottom = canvas.bbox(item)
    pad = px(4)
    # In a narrow chart the text fits on neither side.
    shift = max(0, pad - left) or min(0, canvas.winfo_width() - pad - right)
    canvas.move(item, shift, 0)
    left, right = left + shift, right + shift
    box = canvas.create_rectangle(
        left - pad,
        top - pad,
        right + pad,
        bottom + pad,
        fill=palette.raised,
        outline="",
        tags="pointer",
    )
    canvas.tag_lower(box, item)
