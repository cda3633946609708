"""Card with the chart of the run: its loss, or in reward training also its reward."""

import tkinter as tk
from functools import partial
from tkinter import ttk
from typing import Literal

from ui.charts.run_charts import LossChart, RewardChart
from ui.context import Context
from ui.widgets.button import Button
from ui.widgets.placing import show
from ui.widgets.slider import Slider

_MIN_SMOOTH, _MAX_SMOOTH = 0.0, 0.99
_DRAW_EVERY_MS = 100
_LEGEND_NEEDS, _SMOOTHING_NEEDS = 560, 380

ChartName = Literal["reward", "loss"]


class RunChart:
    """Chart that follows the run at most ten times a second, and only while visible."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets = context.widgets
        self.outer, inner = widgets.card(parent)
        self.loss = LossChart(widgets, inner)
        self.reward = RewardChart(widgets, inner)
        self._head = widgets.frame(inner)
        self._head.pack(fill="x", pady=(0, widgets.px(6)))
        self._title = widgets.label(self._head, "Loss", style="Heading")
        self._title.pack(side="left")
        self._tabs = widgets.frame(self._head)
        self._buttons: dict[ChartName, Button] = {
            name: widgets.button(
                self._tabs,
                name.capitalize(),
                partial(self.choose, name),
                name=f"chart {name}",
            )
            for name in ("reward", "loss")
        }
        for button in self._buttons.values():
            button.widget.pack(side="left", padx=(0, widgets.px(6)))
        self._legend = self._make_legend()
        self._smoothing = self._make_smoothing()
        self._log = widgets.switch(self._head, lambda: self._set_log(self._log.is_on), text="log")
        widgets.name(self._log.widget, "log scale")
        self._head.bind("<Configure>", lambda _: self._fit())
        self._chart_name: ChartName = "loss"
        self._shown: tuple[object, ...] = ()
        self._drawing = ""
        self._show_chart()

    def refresh(self) -> None:
        """Schedule a redraw."""
        session = self._context.session
        has_rewards = session.state.rewards.count > 0
        if has_rewards != bool(self._tabs.winfo_manager()):
            self._chart_name = "reward" if has_rewards else "loss"
            self._show_chart(has_rewards=has_rewards)
        if not self._drawing:
            self._drawing = self.outer.after(_DRAW_EVERY_MS, self._draw)

    def choose(self, name: ChartName) -> None:
        """Show the chart with a name."""
        self._chart_name = name
        self._show_chart(has_rewards=True)
        self._shown = ()
        self._draw()

    def _draw(self) -> None:
        self._drawing = ""
        session, state = self._context.session, self._context.session.state
        counts = (len(state.curve), state.step, len(state.samples), len(state.validation))
        key = (session.generation, *counts, state.rewards.count)
        if key == self._shown or not self.outer.winfo_ismapped():
            return
        self._shown = key
        if self._chart_name == "reward":
            self.reward.show(state.rewards)
        else:
            marks = sorted({sample.step for sample in state.samples})
            self.loss.show(state.curve, marks, state.validation)

    def _show_chart(self, *, has_rewards: bool = False) -> None:
        is_reward = self._chart_name == "reward"
        shown, hidden = (self.reward, self.loss) if is_reward else (self.loss, self.reward)
        hidden.canvas.pack_forget()
        self._slider.set(shown.strength)
        show(shown.canvas, True, fill="both", expand=True)
        show(self._title, not has_rewards, side="left")
        show(self._tabs, has_rewards, side="left")
        for name, button in self._buttons.items():
            button.set_kind("plain" if name == self._chart_name else "quiet")
        self._fit()

    def _fit(self) -> None:
        """Show the controls that fit into the header and apply to the chart."""
        widgets, width = self._context.widgets, self._head.winfo_width()
        has_tabs, is_loss = bool(self._tabs.winfo_manager()), self._chart_name == "loss"
        for part in (self._log.widget, self._smoothing, self._legend):
            part.pack_forget()
        gap = (0, widgets.px(14 if is_loss else 0))
        has_legend = width >= widgets.px(_LEGEND_NEEDS) + has_tabs * widgets.px(110)
        show(self._log.widget, is_loss, side="right")
        show(self._smoothing, width >= widgets.px(_SMOOTHING_NEEDS), side="right", padx=gap)
        show(self._legend, is_loss and has_legend, side="left", padx=(widgets.px(16), 0))

    def _make_legend(self) -> ttk.Frame:
        widgets = self._context.widgets
        legend = widgets.frame(self._head)
        widgets.label(legend, "— smoothed", style="SmallAccent").pack(side="left")
        sign = tk.Label(legend, text="—", font="OneTrainerSmall", borderwidth=0)
        widgets.theme.paint(sign, bg="card", fg="plot")
        sign.pack(side="left", padx=(widgets.px(10), 0))
        widgets.label(legend, " each step", style="SmallDim").pack(side="left")
        widgets.label(legend, "∆ samples", style="SmallGood").pack(
            side="left", padx=(widgets.px(10), 0)
        )
        return legend

    def _make_smoothing(self) -> ttk.Frame:
        widgets = self._context.widgets
        box = widgets.frame(self._head)
        widgets.label(box, "smoothing", style="SmallDim").pack(side="left")
        self._slider = Slider(
            widgets, box, self._set_strength, name="smoothing", ends=(_MIN_SMOOTH, _MAX_SMOOTH)
        )
        self._slider.set(self.loss.strength)
        self._slider.widget.pack(side="left", padx=(widgets.px(6), 0))
        return box

    def _set_strength(self, strength: float) -> None:
        chart = self.reward if self._chart_name == "reward" else self.loss
        chart.strength = min(max(strength, _MIN_SMOOTH), _MAX_SMOOTH)
        chart.draw()

    def _set_log(self, is_log: bool) -> None:
        self.loss.is_log = is_log
        self.loss.draw()
