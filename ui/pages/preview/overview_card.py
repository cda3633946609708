"""Card with key figures of the data: images, steps, cache size, and caching time."""

import tkinter as tk
from collections.abc import Callable
from tkinter import ttk

from ui.background.dataset_preview import PreviewData
from ui.context import Context
from ui.messages.dataset import Fact, facts, model_facts
from ui.messages.memory import failure_text
from ui.widgets.tooltip import Tooltip
from ui.widgets.widgets import Kit, while_visible

_LABEL, _WORDS = 92, 176
_STYLES = {"warning": "SmallWarning", "dim": "SmallDim"}
_COUNT = "Estimate caching time"
_ABOUT_COUNT = "Measures how long caching takes, and finds captions that are longer than a chunk"


class OverviewCard:
    """Card of facts; place `outer`. In a low window it leaves out single folders."""

    def __init__(self, context: Context, parent: tk.Misc, reload: Callable[[], None]) -> None:
        self._context = context
        self._data: PreviewData | None = None
        self._is_low = False
        kit = context.kit
        self.outer, inner = kit.card(parent)
        head = kit.frame(inner)
        head.pack(fill="x", pady=(0, kit.px(4)))
        kit.label(head, "Overview", style="Heading").pack(side="left")
        again = kit.button(head, "Refresh", reload, name="preview refresh", kind="quiet")
        again.describe("Reads the folders again")
        again.widget.pack(side="right")
        self._rows = FactRows(kit, inner)
        self._rows.outer.pack(anchor="w")
        self._estimate_button = kit.button(inner, _COUNT, self._clicked, name="count caching")
        self._estimate_button.describe(_ABOUT_COUNT)
        context.forecasts.listen(while_visible(self.outer, self.refresh))

    @property
    def facts(self) -> list[Fact]:
        """All known facts."""
        if self._data is None:
            return []
        forecasts = self._context.forecasts
        known_facts = facts(self._data.preview)
        forecast = None if forecasts.is_outdated else forecasts.forecast
        if forecast is not None:
            known_facts += model_facts(forecast.data)
        elif forecasts.failed is not None:
            reason = failure_text(forecasts.failed)
            known_facts.append(Fact("Caching", "could not be estimated", "warning", (reason,)))
        return known_facts

    def show(self, data: PreviewData) -> None:
        """Show the facts of a dataset preview."""
        self._data = data
        self.refresh()

    def set_low(self, *, is_low: bool) -> None:
        """Set whether the window is low."""
        if is_low != self._is_low:
            self._is_low = is_low
            self.refresh()

    def refresh(self) -> None:
        """Show the current facts."""
        if self._data is None:
            return
        self._rows.show([fact for fact in self.facts if not (self._is_low and fact.is_of_part)])
        forecasts = self._context.forecasts
        is_known = forecasts.forecast is not None and not forecasts.is_outdated
        self._estimate_button.enable("" if forecasts.is_working else forecasts.blocked_reason())
        self._estimate_button.set_text("Stop" if forecasts.is_working else _COUNT)
        if is_known and not forecasts.is_working:
            self._estimate_button.widget.pack_forget()
        else:
            self._estimate_button.widget.pack(anchor="w", pady=(self._context.kit.px(8), 0))

    def _clicked(self) -> None:
        forecasts = self._context.forecasts
        if forecasts.is_working:
            forecasts.stop()
        else:
            self._context.act.commit()
            forecasts.start()


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
