"""The page of the run: what it does now, how far it is, its loss, its newest samples."""

import tkinter as tk
from functools import partial
from tkinter import ttk

import customtkinter

from ui.chart import LossChart
from ui.context import Context
from ui.kit import focusable
from ui.scroller import Scroller
from ui.theme import pair
from ui.views.run_banner import RunBanner
from ui.views.run_buttons import RunButtons
from ui.views.run_figures import RunFigures
from ui.views.run_held_out import HeldOutCard
from ui.views.run_samples import NewestSamples

_LEAST_SMOOTH, _MOST_SMOOTH = 0.0, 0.99
_DRAW_EVERY_MS = 100
_LEGEND_NEEDS = 560


class RunPage:
    """Everything about the run at work, or the one that ended last."""

    name = "run"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        kit = context.kit
        self.outer: tk.Widget = kit.frame(parent, ground="window")
        margin = kit.px(28)
        head = kit.frame(self.outer, ground="window")
        head.pack(fill="x", padx=margin, pady=(kit.px(21), kit.px(12)))
        self._title: ttk.Label = kit.label(head, style="Title", ground="window")
        self._buttons = RunButtons(context, head)
        self._buttons.outer.pack(side="right", anchor="s")
        self._title.pack(anchor="w")
        self._lead: ttk.Label = kit.label(head, style="Dim", ground="window")
        self._lead.pack(anchor="w")
        self._empty = self._make_empty()
        # What does not fit below a banner can be scrolled to, and the chart stays readable.
        self._scroller = Scroller(kit, self.outer, fills=True)
        self._body = kit.frame(self._scroller.inner, ground="window")
        self._body.grid(row=0, column=0, sticky="nsew", padx=margin, pady=(0, kit.px(20)))
        self.banner = RunBanner(context, self._body)
        self._figures = RunFigures(kit, self._body)
        self._figures.outer.pack(fill="x", pady=(0, kit.px(14)))
        self._held_out = HeldOutCard(context, self._body)
        lower = kit.frame(self._body, ground="window")
        lower.pack(fill="both", expand=True)
        self._held_out.stand_below(lower, self._scroller)
        self._samples = NewestSamples(context, lower)
        self._samples.outer.pack(side="right", fill="y", padx=(kit.px(14), 0))
        card, inner = kit.card(lower)
        card.pack(side="left", fill="both", expand=True)
        self.chart = LossChart(kit, inner)
        self._make_chart_head(inner)
        self.chart.canvas.pack(fill="both", expand=True)
        self._shown: tuple[object, ...] = ()
        self._drawing = ""

    @property
    def held_out_words(self) -> str:
        """What is said of held-out pictures; "" where none were measured."""
        return self._held_out.words

    def refresh(self) -> None:
        """Shows what is known now. The chart follows at most ten times a second."""
        session = self._context.session
        folder = session.folder
        self._buttons.refresh()
        if folder is None:
            self._title.configure(text="Run")
            self._lead.configure(text="Progress, loss and samples of a training.")
            self._scroller.outer.pack_forget()
            self._empty.pack(anchor="nw", padx=self._context.kit.px(28))
            return
        if not self._scroller.outer.winfo_manager():
            self._empty.pack_forget()
            self._scroller.outer.pack(fill="both", expand=True)
        self._title.configure(text=folder.name)
        self._lead.configure(text=str(folder.path))
        self.banner.refresh()
        self._figures.refresh(session)
        self._held_out.refresh()
        self._samples.refresh()
        if not self._drawing:
            self._drawing = self.outer.after(_DRAW_EVERY_MS, self._draw_chart)

    def _draw_chart(self) -> None:
        self._drawing = ""
        state = self._context.session.state
        generation = self._context.session.generation
        counts = (len(state.curve), state.step, len(state.samples), len(state.held_out))
        seen = (generation, *counts)
        if seen != self._shown and self.outer.winfo_ismapped():
            self._shown = seen
            marks = sorted({sample.step for sample in state.samples})
            self.chart.show(state.curve, marks, state.held_out)

    def _make_chart_head(self, parent: tk.Misc) -> None:
        kit = self._context.kit
        head = kit.frame(parent)
        head.pack(fill="x", pady=(0, kit.px(6)))
        kit.label(head, "Loss", style="Heading").pack(side="left")
        legend = self._make_legend(head)
        slider = self._make_slider(head)
        log = kit.switch(head, lambda: self._set_log(log.is_on), text="log")
        log.widget.pack(side="right")
        slider.pack(side="right", padx=(kit.px(6), kit.px(14)))
        kit.label(head, "smoothing", style="SmallDim").pack(side="right")
        kit.name(log.widget, "log scale")

        def fit(event: "tk.Event[tk.Misc]") -> None:
            if event.width < kit.px(_LEGEND_NEEDS):
                legend.pack_forget()
            elif not legend.winfo_manager():
                legend.pack(side="left", padx=(kit.px(16), 0))

        head.bind("<Configure>", fit)

    def _make_legend(self, head: tk.Misc) -> ttk.Frame:
        kit = self._context.kit
        legend = kit.frame(head)
        kit.label(legend, "▬ smoothed", style="SmallAccent").pack(side="left")
        sign = tk.Label(legend, text="▬", font="OneTrainerSmall", borderwidth=0)
        kit.theme.paint(sign, bg="card", fg="plot")
        sign.pack(side="left", padx=(kit.px(10), 0))
        kit.label(legend, " each step", style="SmallDim").pack(side="left")
        kit.label(legend, "▲ samples", style="SmallGood").pack(side="left", padx=(kit.px(10), 0))
        return legend

    def _make_slider(self, head: tk.Misc) -> customtkinter.CTkSlider:
        slider = customtkinter.CTkSlider(
            head,
            from_=_LEAST_SMOOTH,
            to=_MOST_SMOOTH,
            width=110,
            height=16,
            command=self._set_strength,
            fg_color=pair("raised"),
            progress_color=pair("fill"),
            button_color=pair("text"),
            button_hover_color=pair("accent"),
            border_color="transparent",
            bg_color=pair("card"),
        )
        slider.set(self.chart.strength)
        focusable(
            slider,
            lambda: None,
            lambda has: slider.configure(button_color=pair("accent" if has else "text")),
        )
        canvas = next(c for c in slider.winfo_children() if isinstance(c, tk.Canvas))
        for wheel in ("<MouseWheel>", "<Button-4>", "<Button-5>"):
            canvas.unbind(wheel)
        for key, by in (("<Left>", -0.05), ("<Right>", 0.05)):
            canvas.bind(key, partial(self._nudge, slider, by))
        self._context.kit.name(slider, "smoothing")
        return slider

    def _nudge(self, slider: customtkinter.CTkSlider, by: float, _: object) -> None:
        slider.set(min(max(self.chart.strength + by, _LEAST_SMOOTH), _MOST_SMOOTH))
        self._set_strength(slider.get())

    def _set_strength(self, strength: float) -> None:
        self.chart.strength = min(max(strength, _LEAST_SMOOTH), _MOST_SMOOTH)
        self.chart.draw()

    def _set_log(self, is_log: bool) -> None:
        self.chart.is_log = is_log
        self.chart.draw()

    def _make_empty(self) -> customtkinter.CTkFrame:
        kit = self._context.kit
        outer, inner = kit.card(self.outer)
        kit.label(inner, "Nothing has been trained in this window yet", style="Heading").pack(
            anchor="w"
        )
        kit.label(
            inner,
            "Start checks the settings and then trains in a process of its own. This page shows "
            "its progress, speed and memory, the loss, and the newest samples. Earlier runs are "
            "on the page Runs.",
            wrap=520,
        ).pack(anchor="w", pady=(kit.px(6), kit.px(12)))
        line = kit.frame(inner)
        line.pack(anchor="w")
        start = kit.button(line, "▶  Start", self._context.act.start, kind="primary")
        start.widget.pack(side="left", padx=(0, kit.px(8)))
        runs = kit.button(line, "Earlier runs", lambda: self._context.act.show_page("runs"))
        runs.widget.pack(side="left")
        return outer
