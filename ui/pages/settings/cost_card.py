"""Card with the estimated time of a step and its UNet passes."""

import tkinter as tk

from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.rewards.generation import Prompts
from onetrainer.config.train import TrainConfig
from onetrainer.json_file import Document
from onetrainer.messages.durations import format_passes
from ui.charts.bar_table import BarRow, BarTable
from ui.context import Context
from ui.messages.memory import duration_text, labeled_passes, passes_title
from ui.widgets.placing import show, show_in_grid, while_visible

_NOT_COUNTED = "“Will it fit?” also estimates how long a step takes."
_OF_EARLIER = "This time is out of date: settings have changed."
_WRAP = 236


class CostCard:
    """Card with the UNet passes of the current settings and the step time of the last forecast."""

    def __init__(self, context: Context, parent: tk.Misc, page: str, *, line: int) -> None:
        self._context = context
        widgets = context.widgets
        self._outer, _, inner = widgets.titled_card(parent, "Time")
        self._outer.grid(row=line, column=0, sticky="ew", pady=(0, widgets.px(14)))
        self._time = widgets.label(inner, wrap=_WRAP)
        self._note = widgets.label(inner, style="SmallDim", wrap=_WRAP)
        self._passes = widgets.label(inner, style="SmallDim", wrap=_WRAP)
        self._passes.pack(anchor="w", pady=(widgets.px(8), widgets.px(2)))
        self._parts = BarTable(widgets, inner, color="fill")
        self._parts.canvas.pack(fill="x")
        widgets.name(self._outer, f"cost {page}")
        self._document: Document | None = None
        self._outer.grid_remove()
        context.forecasts.listen(while_visible(self._outer, self.refresh))

    def refresh(self) -> None:
        """Show the current values."""
        forecasts, px = self._context.forecasts, self._context.widgets.px
        duration, is_old = duration_text(forecasts.answer), forecasts.is_outdated
        self._time.say(duration, "Dim" if is_old else "")
        self._note.say(_OF_EARLIER if duration else _NOT_COUNTED)
        has_note = is_old or not duration
        above = {"anchor": "w", "before": self._passes}
        show(self._note, has_note, pady=(0 if duration else px(4), 0), **above)
        first = self._note if has_note else self._passes
        show(self._time, bool(duration), anchor="w", pady=(px(4), 0), before=first)
        document = self._context.draft.document
        if document is not self._document:
            self._document = document
            self._show_passes()

    def _show_passes(self) -> None:
        # Imported late, because opening the window does not need it.
        from onetrainer.rewards.cost import cost_of

        config = self._context.draft.valid_config()
        # There are none for wrong settings and for the VAE.
        parts = cost_of(_without_files(config)).step.by_purpose() if config is not None else {}
        show_in_grid(self._outer, bool(parts))
        if parts:
            whole = sum(parts.values())
            self._passes.say(passes_title(whole))
            labeled = labeled_passes(parts)
            self._parts.show([BarRow(one, n / whole, format_passes(n)) for one, n in labeled])


def _without_files(config: TrainConfig) -> TrainConfig:
    """Replace the prompts of a config, whose number does not change the cost of a step."""
    section = config.objective
    if not isinstance(section, AlignProp):
        return config
    section = section.model_copy(update={"prompts": Prompts(text="an image")})
    return config.model_copy(update={"objective": section})
