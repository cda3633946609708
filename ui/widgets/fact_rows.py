"""Rows of a label and a value."""

import tkinter as tk
from collections.abc import Sequence
from functools import partial

from ui.messages.dataset import Fact
from ui.widgets.placing import show_in_grid, toned
from ui.widgets.tooltip import Tooltip
from ui.widgets.widgets import Label, Widgets

_GAP = 8  # px at 96 dpi, between a label and its value


class FactRows:
    """Rows of facts; place `outer`. Rows are created once and reused.

    Args:
        label: Width of the labels in pixels at 96 dpi.
        wrap: Width to which values are wrapped; 0 for none.
    """

    def __init__(self, widgets: Widgets, parent: tk.Misc, *, label: int, wrap: int = 0) -> None:
        self._widgets = widgets
        self._wrap, self._inset = wrap, widgets.px(label + _GAP)
        self.outer = widgets.frame(parent)
        self.outer.grid_columnconfigure(0, minsize=widgets.px(label))
        self._rows: list[tuple[Label, Label]] = []
        self._facts: Sequence[Fact] = ()

    @property
    def lines(self) -> list[str]:
        """The shown rows as text."""
        return [f"{fact.label}: {fact.text}" for fact in self._facts]

    def show(self, facts: Sequence[Fact]) -> None:
        """Show facts."""
        if facts == self._facts:
            return
        self._facts = facts
        while len(self._rows) < len(facts):
            self._rows.append(self._make(len(self._rows)))
        for index, labels in enumerate(self._rows):
            for widget in labels:
                show_in_grid(widget, index < len(facts))
            if index < len(facts):
                fact = facts[index]
                # The name of a folder may be long.
                labels[0].say(fact.label if len(fact.label) <= 16 else f"{fact.label[:15]}…")
                labels[1].say(fact.text, toned(fact.tone, "Small"))

    def _make(self, index: int) -> tuple[Label, Label]:
        widgets = self._widgets
        label = widgets.label(self.outer, style="SmallDim")
        value = widgets.label(self.outer, wrap=self._wrap)
        value.inset = self._inset
        label.grid(row=index, column=0, sticky="nw", pady=widgets.px(1))
        value.grid(row=index, column=1, sticky="nw", padx=(widgets.px(_GAP), 0), pady=widgets.px(1))
        for widget in (label, value):
            Tooltip(widget, widgets.theme, partial(self._more, index))
        return label, value

    def _more(self, index: int) -> str:
        return "\n".join(self._facts[index].more) if index < len(self._facts) else ""
