"""Small curve in a card, with labels for its two ends."""

import tkinter as tk
from collections.abc import Sequence

from ui.theme import smooth
from ui.widgets.widgets import Kit

# x and y of a point, as fractions of the plot from its lower left corner.
Point = tuple[float, float]

_HEIGHT = 64
_LINE = 2.0


class SmallPlot:
    """Curve, or a message in its place; place `widget`."""

    def __init__(self, kit: Kit, parent: tk.Misc, *, name: str, width: int) -> None:
        self._kit = kit
        self._width = kit.px(width)
        self._box = kit.frame(parent)
        self.widget: tk.Widget = self._box
        self._title = kit.label(self._box, style="SmallDim", wrap=width)
        self._title.pack(anchor="w", pady=(kit.px(12), kit.px(4)))
        self._canvas = tk.Canvas(
            self._box, width=self._width, height=kit.px(_HEIGHT), highlightthickness=0
        )
        self._canvas.configure(takefocus=0)
        kit.theme.paint(self._canvas, bg="card")
        self._image = smooth.make(self._canvas, self._width, kit.px(_HEIGHT))
        self._canvas.create_image(0, 0, image=self._image, anchor="nw")
        self._ends = kit.frame(self._box)
        self._left = kit.label(self._ends, style="SmallDim")
        self._right = kit.label(self._ends, style="SmallDim")
        self._right.configure(justify="right")
        self._left.pack(side="left", anchor="n")
        self._right.pack(side="right", anchor="n")
        kit.name(self._canvas, name)

    def show(self, title: str, curve: Sequence[Point], ends: tuple[str, str]) -> None:
        """Draw a curve. curve: two or more points from left to right, each in [0, 1]."""
        self._title.configure(text=title)
        self._left.configure(text=ends[0])
        self._right.configure(text=ends[1])
        self._canvas.pack(anchor="w")
        self._ends.pack(anchor="w", fill="x")
        self._draw(curve)

    def explain(self, text: str) -> None:
        """Show a message instead of the curve."""
        self._title.configure(text=text)
        self._canvas.pack_forget()
        self._ends.pack_forget()

    def _draw(self, curve: Sequence[Point]) -> None:
        kit, palette = self._kit, self._kit.theme.palette
        width, height, pad = self._width, kit.px(_HEIGHT), kit.px(3)
        line = [
            (pad + x * (width - 2 * pad), pad + (1 - fraction) * (height - 2 * pad))
            for x, fraction in curve
        ]
        rows = smooth.area(
            width,
            height,
            line,
            thickness=_LINE * kit.theme.scale,
            foot=height - pad,
            colors=(palette.card, palette.selected, palette.accent),
        )
        smooth.fill(self._canvas, self._image, rows)
