"""Page of the run: activity, progress, charts and newest samples."""

import tkinter as tk
from functools import partial
from tkinter import ttk

from ui.context import Context, View
from ui.messages.line_breaks import shorten, shorten_start
from ui.pages.run.banner import RunBanner
from ui.pages.run.buttons import RunButtons
from ui.pages.run.chart import RunChart
from ui.pages.run.figures import RunFigures
from ui.pages.run.rewards import RunRewards
from ui.pages.run.samples import NewestSamples
from ui.pages.run.validation import ValidationCard
from ui.theme.theme import TITLE
from ui.widgets.placing import show
from ui.widgets.scroller import Scroller
from ui.widgets.tooltip import Tooltip


class RunPage(View):
    """Everything about the current run, or the last one."""

    name = "run"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets = context.widgets
        self.outer: tk.Widget = widgets.frame(parent, ground="window")
        margin = widgets.px(28)
        head = widgets.frame(self.outer, ground="window")
        head.pack(fill="x", padx=margin, pady=(widgets.px(21), widgets.px(12)))
        self._buttons = RunButtons(context, head)
        heading, self._title, self._lead = widgets.heading(head)
        heading.pack(side="left")
        Tooltip(self._lead, widgets.theme, self._path)
        widgets.name(self._lead, "run path")
        for box in (head, self._buttons.outer):
            box.bind("<Configure>", lambda _: self._show_name(), add="+")
        self._empty = self._make_empty()
        # Scrolling keeps the chart readable below a banner.
        self._scroller = Scroller(widgets, self.outer, fills=True)
        self._body = widgets.frame(self._scroller.inner, ground="window")
        self._body.grid(row=0, column=0, sticky="nsew", padx=margin, pady=(0, widgets.px(20)))
        self.banner = RunBanner(context, self._body)
        self._figures = RunFigures(widgets, self._body)
        self._figures.outer.pack(fill="x", pady=(0, widgets.px(14)))
        lower = widgets.frame(self._body, ground="window")
        lower.pack(fill="both", expand=True)
        self._validation = ValidationCard(context, self._body, lower, self._scroller)
        self._samples = NewestSamples(context, lower)
        self._samples.outer.pack(side="right", fill="y", padx=(widgets.px(14), 0))
        left = widgets.frame(lower, ground="window")
        left.pack(side="left", fill="both", expand=True)
        self._chart = RunChart(context, left)
        self._chart.outer.pack(fill="both", expand=True)
        self._rewards = RunRewards(context, left, self._samples.outer, self._scroller, self.banner)

    def refresh(self) -> None:
        """Show the current state."""
        session = self._context.session
        folder = session.folder
        self.banner.refresh()
        self._buttons.refresh(has_remedy=self.banner.has_remedy)
        show(self._empty, folder is None, anchor="nw", padx=self._context.widgets.px(28))
        show(self._scroller.outer, folder is not None, fill="both", expand=True)
        if folder is None:
            self._title.say("Run")
            self._lead.say("Progress, loss and samples of a run.")
            return
        self._show_name()
        self._figures.refresh(session)
        self._validation.refresh()
        self._samples.refresh()
        self._rewards.refresh()
        self._chart.refresh()

    def _path(self) -> str:
        folder = self._context.session.folder
        return str(folder.path) if folder else ""

    def _show_name(self) -> None:
        """Show the run's name and path as far as there is room; a path's end tells most."""
        folder, theme = self._context.session.folder, self._context.widgets.theme
        if folder is not None:
            room = self._buttons.room_beside
            self._title.say(shorten(folder.name, room, partial(theme.measure, font=TITLE)))
            self._lead.say(shorten_start(self._path(), room, theme.measure))

    def _make_empty(self) -> ttk.Frame:
        widgets = self._context.widgets
        outer, line = widgets.empty_card(
            self.outer,
            "No run yet",
            "“Start” checks the settings and trains in a separate process. This page shows its "
            "progress, speed, memory, loss and newest samples. Earlier runs are on the page Runs.",
        )
        start = widgets.button(line, "Start", self._context.act.start, kind="primary")
        start.widget.pack(side="left", padx=(0, widgets.px(8)))
        runs = widgets.button(line, "Earlier runs", lambda: self._context.act.show_page("runs"))
        runs.widget.pack(side="left")
        return outer
