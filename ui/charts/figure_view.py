"""The charts of runs with what is above them: smoothing, scale, what is seen, and their files."""

import tkinter as tk
from collections.abc import Callable
from tkinter import ttk

from ui.charts.figure_charts import FigureCharts
from ui.widgets.placing import place_two
from ui.widgets.scroller import Scroller
from ui.widgets.slider import Slider
from ui.widgets.widgets import Widgets

_SMOOTH = (0.0, 0.99)
_BESIDE = 760
_HINT = (
    "Drag or turn the wheel to zoom, double-click to enlarge a chart. Keys: arrows, Shift+arrows, "
    "+, −, 0, Enter."
)


class FigureView:
    """Charts to scroll in, with their controls; place `outer`.

    Args:
        save_picture, save_table: Called by the buttons.
    """

    def __init__(
        self,
        widgets: Widgets,
        parent: tk.Misc,
        *,
        name: str,
        save_picture: Callable[[], None],
        save_table: Callable[[], None],
    ) -> None:
        px = widgets.px
        self.outer: ttk.Frame = widgets.frame(parent)
        bar = widgets.frame(self.outer)
        left, right = widgets.frame(bar), widgets.frame(bar)
        scroller = Scroller(widgets, self.outer, ground="card", fills=True)
        self.charts = charts = FigureCharts(
            widgets,
            scroller.inner,
            name=name,
            changed=self._refresh,
            scroll=scroller.scroll_if_needed,
        )
        charts.canvas.grid(row=0, column=0, sticky="nsew")
        widgets.label(left, "Smoothing", style="SmallDim").pack(side="left", padx=(0, px(6)))
        slider = Slider(
            widgets,
            left,
            lambda strength: charts.set_look(strength=strength),
            name=f"{name} smoothing",
            ends=_SMOOTH,
        )
        slider.set(charts.look.strength)
        slider.widget.pack(side="left", padx=(0, px(14)))
        log = widgets.switch(left, lambda: charts.set_look(is_log=log.is_on), text="Log scale")
        log.widget.pack(side="left")
        widgets.name(log.widget, f"{name} log scale")
        self._whole = widgets.button(
            right, "Whole run", charts.show_whole, name=f"{name} whole run"
        ).describe("Shows all steps again (0)")
        self._enlarge = widgets.button(
            right, "All charts", charts.enlarge, name=f"{name} enlarge"
        ).describe("Shows one chart alone, or all of them (Enter, or a double click)")
        picture = widgets.button(
            right, "Save image", save_picture, name=f"{name} save image"
        ).describe("Writes what is seen of the charts as a PNG file into the run's folder")
        table = widgets.button(right, "Save table", save_table, name=f"{name} save table").describe(
            "Writes the figures of every step as a CSV file into the run's folder"
        )
        for button in (self._whole, self._enlarge, picture, table):
            button.widget.pack(side="left", padx=(0, px(6)))
        self._hint = widgets.label(self.outer, _HINT, style="SmallDim")
        self._sides, self._gap, self._beside = (left, right), px(6), px(_BESIDE)
        bar.pack(fill="x")
        self._hint.pack(fill="x", pady=(px(6), px(8)))
        scroller.outer.pack(fill="both", expand=True)
        bar.bind("<Configure>", self._fit)
        self._refresh()

    def _refresh(self) -> None:
        """Enable what has an effect."""
        look = self.charts.look
        self._whole.enable("" if look.span else "All steps are shown.")
        self._enlarge.set_text("All charts" if look.only else "Enlarge one")

    def _fit(self, event: "tk.Event[tk.Misc]") -> None:
        left, right = self._sides
        is_beside = event.width >= self._beside
        place_two(left, right, is_beside=is_beside, gap=self._gap)
        right.grid_configure(sticky="e" if is_beside else "w")
        left.grid_configure(sticky="w")
        self._hint.configure(wraplength=max(200, event.width))
