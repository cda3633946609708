"""Rows of short facts: a label and a value each."""

import tkinter as tk
from tkinter import ttk

from ui.messages.dataset import Fact
from ui.widgets.tooltip import Tooltip
from ui.widgets.widgets import Kit

_LABEL, _WORDS = 92, 176
_STYLES = {"warning": "SmallWarning", "dim": "SmallDim"}


class FactRows:
    """Rows of facts; place `outer`. Rows are created once and reused."""

    def __init__(self, kit: Kit, parent: tk.Misc) -> None:
        self._kit = kit
        self.outer = kit.frame(parent)
        self.outer.grid_columnconfigure(0, minsize=kit.px(_LABEL))
        self._rows: list[tuple[ttk.Label, ttk.Label]] = []
        self._facts: list[Fact] = []

    def show(self, facts: list[Fact]) -> None:
        """Show facts."""
        if facts == self._facts:
            return
        self._facts = facts
        while len(self._rows) < len(facts):
            self._rows.append(self._make(len(self._rows)))
        for index, (label, value) in enumerate(self._rows):
            if index >= len(facts):
                label.grid_remove()
                value.grid_remove()
                continue
            fact = facts[index]
            style = _STYLES.get(fact.tone, "Small")
            # The name of a folder may be long.
            name = fact.label if len(fact.label) <= 16 else f"{fact.label[:15]}…"
            label.configure(text=name)
            value.configure(text=fact.text, style=f"{style}.Card.TLabel")
            label.grid()
            value.grid()

    def _make(self, index: int) -> tuple[ttk.Label, ttk.Label]:
        kit = self._kit
        label = kit.label(self.outer, style="SmallDim")
        value = kit.label(self.outer, wrap=_WORDS)
        label.grid(row=index, column=0, sticky="nw", pady=kit.px(1))
        value.grid(row=index, column=1, sticky="nw", padx=(kit.px(8), 0), pady=kit.px(1))
        for widget in (label, value):
            Tooltip(widget, kit.theme, lambda: self._more(index))
        return label, value

    def _more(self, index: int) -> str:
        return "\n".join(self._facts[index].more) if index < len(self._facts) else ""
