"""Card with key figures of the data: images, steps, cache size, and caching time."""

import tkinter as tk
from collections.abc import Callable

from ui.background.dataset_preview import PreviewData
from ui.context import Context
from ui.messages.dataset import Fact, facts, model_facts
from ui.messages.memory import failure_text
from ui.widgets.fact_rows import FactRows
from ui.widgets.placing import show, while_visible

_LABEL, _WORDS = 92, 176
_COUNT = "Estimate caching time"
_ABOUT_COUNT = "Measures how long caching takes, and finds captions that are longer than a chunk"


class OverviewCard:
    """Card of facts; place `outer`. In a low window it leaves out single folders."""

    def __init__(self, context: Context, parent: tk.Misc, reload: Callable[[], None]) -> None:
        self._context = context
        self._data: PreviewData | None = None
        self._is_low = False
        widgets = context.widgets
        self.outer, head, inner = widgets.titled_card(parent, "Overview")
        again = widgets.button(head, "Refresh", reload, name="preview refresh", kind="quiet")
        again.describe("Reads the folders again")
        again.widget.pack(side="right")
        self._rows = FactRows(widgets, inner, label=_LABEL, wrap=_WORDS)
        self._rows.outer.pack(anchor="w", pady=(widgets.px(4), 0))
        self._estimate_button = widgets.button(inner, _COUNT, self._clicked, name="count caching")
        self._estimate_button.describe(_ABOUT_COUNT)
        context.forecasts.listen(while_visible(self.outer, self.refresh))

    @property
    def facts(self) -> list[Fact]:
        """All known facts."""
        if self._data is None:
            return []
        forecasts = self._context.forecasts
        known_facts = facts(self._data.preview)
        forecast = None if forecasts.is_outdated else forecasts.answer
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
        is_known = forecasts.answer is not None and not forecasts.is_outdated
        self._estimate_button.enable("" if forecasts.is_working else forecasts.blocked_reason())
        self._estimate_button.set_text("Stop" if forecasts.is_working else _COUNT)
        is_offered = forecasts.is_working or not is_known
        pad = (self._context.widgets.px(8), 0)
        show(self._estimate_button.widget, is_offered, anchor="w", pady=pad)

    def _clicked(self) -> None:
        forecasts = self._context.forecasts
        if forecasts.is_working:
            forecasts.stop()
        else:
            self._context.act.commit()
            forecasts.start()
