"""The values at the pointer, written in a box next to its line."""

from ui.charts.panel import Frame
from ui.widgets.drawing import Drawing

_GAP, _PAD = 10, 4


def write_next_to(drawing: Drawing, frame: Frame, x: float, text: str) -> None:
    """Write in a box next to a column, on the side with more space; tagged "pointer"."""
    canvas, gap, pad = drawing.canvas, drawing.px(_GAP), drawing.px(_PAD)
    is_left = x < (frame.left + frame.right) / 2
    at, top = x + gap if is_left else x - gap, frame.top + pad
    item = drawing.text(at, top, text, anchor="nw" if is_left else "ne", tags="pointer")
    left, top, right, bottom = canvas.bbox(item)
    # In a narrow chart the text fits on neither side.
    shift = max(0, pad - left) or min(0, drawing.width - pad - right)
    canvas.move(item, shift, 0)
    box = (left + shift - pad, top - pad, right + shift + pad, bottom + pad)
    canvas.tag_lower(drawing.box(*box, "raised", tags="pointer"), item)
