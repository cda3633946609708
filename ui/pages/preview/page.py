"""Preview page: what training will do with the images, and problems of the images."""

import tkinter as tk
from functools import partial
from typing import Protocol

from ui.context import Context, View
from ui.pages.preview.check import CheckTab
from ui.pages.preview.plan import PlanTab
from ui.widgets.button import Button
from ui.widgets.placing import wrap_within
from ui.widgets.scroller import Scroller

_LEAD = "What training will do with your images. The files are never changed."
_LEAST, _GAP = 540, 40


class Tab(Protocol):
    """Tab of the page."""

    outer: tk.Widget

    def refresh(self) -> None:
        """Show the current state."""


class PreviewPage(View):
    """Page with two tabs."""

    name = "preview"

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        widgets = context.widgets
        scroller = Scroller(widgets, parent, fills=True, least=_LEAST)
        self.outer: tk.Widget = scroller.outer
        page = widgets.frame(scroller.inner, ground="window")
        page.grid(sticky="nsew")
        head = widgets.frame(page, ground="window")
        head.pack(fill="x", padx=widgets.px(28), pady=(widgets.px(21), widgets.px(12)))
        heading, _, lead = widgets.heading(head, "Preview", _LEAD)
        heading.pack(side="left")
        choice = widgets.frame(head, ground="window")
        choice.pack(side="right", anchor="s")
        body = widgets.frame(page, ground="window")
        body.pack(fill="both", expand=True, padx=widgets.px(28), pady=(0, widgets.px(20)))
        self._body = body
        self.plan = PlanTab(context, body)
        self.check: CheckTab | None = None  # None until it is shown
        self._buttons: dict[str, Button] = {}
        for name, text in (("plan", "Preview"), ("check", "Check images")):
            button = widgets.button(
                choice, text, partial(self.show, name), name=f"preview {name}", ground="window"
            )
            button.widget.pack(side="left", padx=(widgets.px(6), 0))
            self._buttons[name] = button
        taken = sum(button.widget.winfo_reqwidth() for button in self._buttons.values())
        wrap_within(head, lead, margin=taken + widgets.px(_GAP))
        self.shown = ""
        self.show("plan")

    def show(self, name: str) -> None:
        """Show a tab."""
        if name != self.shown:
            if self.shown:
                self._tab.outer.pack_forget()
            self.shown = name
            self._tab.outer.pack(fill="both", expand=True)
            for other, button in self._buttons.items():
                button.set_kind("plain" if other == name else "quiet")
        if self.outer.winfo_ismapped():
            self.refresh()

    def open(self, *_: int) -> None:
        """Show the tab that examines images."""
        self.show("check")

    def refresh(self) -> None:
        """Show the current state."""
        self._tab.refresh()

    @property
    def _tab(self) -> Tab:
        """The tab that is shown, created at its first visit."""
        if self.shown == "plan":
            return self.plan
        self.check = self.check or CheckTab(self._context, self._body)
        return self.check
