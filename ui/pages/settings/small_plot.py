"""Small curve in a card, with labels for its two ends."""

import tkinter as tk
from collections.abc import Callable
from dataclasses import dataclass

from ui.theme import smooth
from ui.widgets.placing import show
from ui.widgets.widgets import Widgets

_HEIGHT = 64
_LINE = 2.0


@dataclass(frozen=True)
class PlotCurve:
    """Two or more points from left to right, each in [0, 1], with title and labels of the ends."""

    title: str
    points: list[tuple[float, float]]
    ends: tuple[str, str]


class SmallPlot:
    """Curve, or a message in its place; place `widget`.

    Args:
        inputs: Returns the values that the curve depends on.
        curve: Returns the curve, a message while the values are wrong, or None, for which its place
            stays empty, while that is not known.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        inputs: Callable[[], object],
        curve: Callable[[], PlotCurve | str | None],
        *,
        name: str,
        width: int,
    ) -> None:
        self._widgets = widgets
        self._inputs, self._curve = inputs, curve
        self._drawn: object = None
        self._size = widgets.px(width), widgets.px(_HEIGHT)
        self.widget: tk.Widget = widgets.frame(parent)
        self._title = widgets.label(self.widget, style="SmallDim")
        self._title.configure(wraplength=widgets.px(width))
        self._title.pack(anchor="w", pady=(widgets.px(12), widgets.px(4)))
        self._image = smooth.make(self.widget, *self._size)
        self._plot = tk.Label(self.widget, image=self._image, borderwidth=0)
        self._plot.bind("<Destroy>", lambda _: self.widget.tk.call("image", "delete", self._image))
        widgets.theme.paint(self._plot, bg="card")
        self._ends = widgets.frame(self.widget)
        self._left = widgets.label(self._ends, style="SmallDim")
        self._right = widgets.label(self._ends, style="SmallDim")
        self._right.configure(justify="right")
        self._left.pack(side="left", anchor="n")
        self._right.pack(side="right", anchor="n")
        widgets.name(self._plot, name)

    def draw(self) -> None:
        """Draw the current values, unless they are drawn already."""
        wanted = (self._inputs(), self._widgets.theme.mode)
        if wanted == self._drawn:
            return
        curve = self._curve()
        has_place = not isinstance(curve, str)
        show(self._plot, has_place, anchor="w")
        show(self._ends, has_place, anchor="w", fill="x")
        if curve is None:
            return
        self._drawn = wanted
        if isinstance(curve, str):
            self._title.say(curve)
            return
        self._title.say(curve.title)
        self._left.say(curve.ends[0])
        self._right.say(curve.ends[1])
        (width, height), palette, pad = self._size, self._widgets.theme.palette, self._widgets.px(3)
        inside = width - 2 * pad, height - 2 * pad
        rows = smooth.area(
            width,
            height,
            [(pad + x * inside[0], pad + (1 - y) * inside[1]) for x, y in curve.points],
            thickness=_LINE * self._widgets.theme.scale,
            foot=height - pad,
            colors=(palette["card"], palette["selected"], palette["accent"]),
        )
        smooth.fill(self.widget, self._image, rows)
