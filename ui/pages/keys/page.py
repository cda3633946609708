"""Page of help: keyboard shortcuts, and what there is if something does not work."""

import tkinter as tk

from ui.actions.keys import SHORTCUTS
from ui.context import Context, View
from ui.theme.theme import MONO
from ui.widgets.placing import wrap_within
from ui.widgets.scroller import Scroller
from ui.widgets.widgets import CARD_PAD

_MARGIN, _GAP, _WRAP = 28, 20, 520


class KeysPage(View):
    """Keyboard shortcuts, and buttons to examine this computer and to report a run."""

    name = "keys"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        widgets = context.widgets
        scroller = Scroller(widgets, parent)
        self.outer: tk.Widget = scroller.outer
        box, _, _ = widgets.heading(
            scroller.inner, "Help", "The whole program can be used without a mouse."
        )
        box.pack(anchor="nw", padx=widgets.px(_MARGIN), pady=widgets.px(21))
        self._session, self._report_run = context.session, context.act.report
        self._make_support(context, box)
        outer, inner = widgets.card(box)
        outer.pack(fill="x", pady=(widgets.px(14), 0))
        listed = [(keys, description) for keys, description, _ in SHORTCUTS]
        pages = [
            (page.key.replace("-", "+"), f"Go to {page.title}")
            for page in context.pages
            if page.key
        ]
        listed += pages
        widest = max(widgets.theme.measure(keys, MONO) for keys, _ in listed) + widgets.px(_GAP)
        inner.grid_columnconfigure(0, minsize=widest)
        inner.grid_columnconfigure(1, minsize=widgets.px(260))
        texts = []
        for line, (keys, description) in enumerate(listed):
            widgets.label(inner, keys, style="Mono").grid(row=line, column=0, sticky="w")
            about = widgets.label(inner, description)
            about.grid(row=line, column=1, sticky="w", pady=widgets.px(4))
            texts.append(about)
        margin = widgets.px(2 * (_MARGIN + CARD_PAD)) + widest
        wrap_within(scroller.canvas, *texts, margin=margin, most=widgets.px(_WRAP))

    def refresh(self) -> None:
        """Enable the report of the displayed run."""
        self._report.enable("" if self._session.folder else "No run is displayed.")

    def _make_support(self, context: Context, parent: tk.Misc) -> None:
        widgets, act = context.widgets, context.act
        outer, inner = widgets.card(parent)
        outer.pack(fill="x", pady=(widgets.px(14), 0))
        widgets.label(inner, "If something does not work", style="Heading").pack(anchor="w")
        line = widgets.frame(inner)
        line.pack(anchor="w", pady=(widgets.px(10), 0))
        check = widgets.button(line, "Check this computer", act.examine, name="check computer")
        check.describe("Packages, GPU, driver, memory, disk; each is good or has its remedy")
        check.widget.pack(side="left", padx=(0, widgets.px(8)))
        self._report = widgets.button(
            line, "Report this run", self._make_report, name="make report"
        )
        self._report.describe("One archive for a bug report, without images, prompts and names")
        self._report.widget.pack(side="left")

    def _make_report(self) -> None:
        if self._session.folder is not None:
            self._report_run(self._session.folder.path)
