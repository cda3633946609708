"""Page of a run's charts and log."""

import tkinter as tk
from functools import partial

from ui.context import Context, View
from ui.pages.monitor.charts_view import ChartsView
from ui.pages.monitor.log_view import LogView
from ui.widgets.button import Button
from ui.widgets.placing import show
from ui.widgets.scroller import Scroller

_TABS = ("charts", "log")
_LEAST = 440


class MonitorPage(View):
    """Charts of all that the displayed run reports, and its log."""

    name = "monitor"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets, px = context.widgets, context.widgets.px
        scroller = Scroller(widgets, parent, fills=True, least=_LEAST)
        self.outer: tk.Widget = scroller.outer
        page = widgets.frame(scroller.inner, ground="window")
        page.grid(sticky="nsew")
        head = widgets.frame(page, ground="window")
        head.pack(fill="x", padx=px(28), pady=(px(21), px(12)))
        heading, _, self._lead = widgets.heading(head, "Monitor")
        heading.pack(side="left")
        self._tabs = widgets.frame(head, ground="window")
        self._buttons: dict[str, Button] = {}
        for name in _TABS:
            button = widgets.button(
                self._tabs,
                name.capitalize(),
                partial(self.show_tab, name),
                name=f"monitor {name}",
                ground="window",
            )
            button.widget.pack(side="left", padx=(px(6), 0))
            self._buttons[name] = button
        compare = widgets.button(
            self._tabs,
            "Compare runs…",
            partial(context.act.show_page, "runs"),
            name="monitor compare",
            ground="window",
        ).describe("Choose several on the page Runs: their charts over each other")
        compare.widget.pack(side="left", padx=(px(18), 0))
        self._empty, line = widgets.empty_card(
            page,
            "No run yet",
            "Charts of loss, learning rate, memory, speed and more appear here, and the log of "
            "the process that trains.",
        )
        widgets.button(line, "Start", context.act.start, kind="primary").widget.pack(
            side="left", padx=(0, px(8))
        )
        runs = partial(context.act.show_page, "runs")
        widgets.button(line, "Earlier runs", runs).widget.pack(side="left")
        self.charts = ChartsView(context, page)
        self.log = LogView(context, page)
        self._views: dict[str, ChartsView | LogView] = {"charts": self.charts, "log": self.log}
        self.shown = "charts"
        self.show_tab(self.shown)

    def refresh(self) -> None:
        """Show what is new."""
        folder = self._context.session.folder
        self._lead.say(folder.name if folder else "Charts and log of a run.")
        self._arrange()
        if folder is not None:
            self._views[self.shown].refresh()

    def show_tab(self, name: str) -> None:
        """Show the charts or the log."""
        self.shown = name
        for other, button in self._buttons.items():
            button.set_kind("plain" if other == name else "quiet")
        self._arrange()
        if self.outer.winfo_manager():  # only then it is on the screen
            self.outer.update_idletasks()
            self.refresh()
            self.take_focus()

    def open(self, *place: int) -> None:
        """Show the log, at the place 1; otherwise the charts."""
        self.show_tab(_TABS[place[0]])

    def leave(self) -> bool:
        """Go back to all charts, or end the search."""
        return self._views[self.shown].leave()

    def take_focus(self) -> None:
        """Give the keyboard to what is shown."""
        if self._context.session.folder is None:
            super().take_focus()
        else:
            self._views[self.shown].take_focus()

    def _arrange(self) -> None:
        px, has_run = self._context.widgets.px, self._context.session.folder is not None
        show(self._tabs, has_run, side="right", anchor="s")
        show(self._empty, not has_run, anchor="nw", padx=px(28))
        inside = {"fill": "both", "expand": True, "padx": px(28), "pady": (0, px(20))}
        for name, view in self._views.items():
            show(view.outer, has_run and name == self.shown, **inside)
