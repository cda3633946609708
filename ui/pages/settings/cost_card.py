"""Card with the estimated time of a step and its UNet passes."""

import tkinter as tk
from tkinter import ttk

from onetrainer.config.rewards.alignprop import AlignProp
from onetrainer.config.rewards.generation import Prompts
from onetrainer.config.train import TrainConfig
from onetrainer.json_file import Document
from onetrainer.messages.durations import format_passes
from ui.charts.bar_table import BarRow, BarTable
from ui.context import Context
from ui.messages.memory import duration_text, labeled_passes, passes_title
from ui.pages.settings.objective_card import REWARDS
from ui.widgets.widgets import while_visible, wrap_in_card

PAGES = (REWARDS, "hardware")

_NOT_COUNTED = "“Will it fit?” also estimates how long a step takes."
_OF_EARLIER = "This time is out of date: settings have changed."
_WRAP = 236


class CostCard:
    """Card with the UNet passes of the current settings and the step time of the last forecast."""

    def __init__(self, context: Context, parent: tk.Misc, page: str, *, line: int) -> None:
        self._context = context
        kit = context.kit
        self._outer, inner = kit.card(parent)
        self._outer.grid(row=line, column=0, sticky="ew", pady=(0, kit.px(14)))
        kit.label(inner, "Time", style="Heading").pack(anchor="w")
        self._time: ttk.Label = kit.label(inner, wrap=_WRAP)
        self._note: ttk.Label = kit.label(inner, style="SmallDim", wrap=_WRAP)
        self._passes: ttk.Label = kit.label(inner, style="SmallDim", wrap=_WRAP)
        self._note.pack(anchor="w", pady=(kit.px(4), 0))
        self._passes.pack(anchor="w", pady=(kit.px(8), kit.px(2)))
        self._parts = BarTable(kit, inner, color="fill")
        self._parts.canvas.pack(fill="x")
        kit.name(self._outer, f"cost {page}")
        self._document: Document | None = None
        self._outer.grid_remove()
        context.forecasts.listen(while_visible(self._outer, self.refresh))

    def wrap(self, width: int) -> None:
        """Wrap the text to a card of a width in pixels."""
        wrap_in_card(self._context.kit, width, self._time, self._note, self._passes)

    def refresh(self) -> None:
        """Show the current values."""
        self._show_time()
        document = self._context.draft.document
        if document is not self._document:
            self._document = document
            self._show_passes()

    def _show_time(self) -> None:
        forecasts = self._context.forecasts
        text_lines = duration_text(forecasts.forecast)
        is_old = forecasts.is_outdated
        style = "Dim.Card.TLabel" if is_old else "Card.TLabel"
        self._time.configure(text=text_lines, style=style)
        if text_lines and not self._time.winfo_manager():
            self._time.pack(anchor="w", pady=(self._context.kit.px(4), 0), before=self._note)
        note = _NOT_COUNTED if not text_lines else _OF_EARLIER if is_old else ""
        self._note.configure(text=note)
        if note and not self._note.winfo_manager():
            self._note.pack(anchor="w", before=self._passes)
        elif not note:
            self._note.pack_forget()

    def _show_passes(self) -> None:
        parts = self._passes_by_purpose()
        if not parts:
            self._outer.grid_remove()
            return
        whole = sum(parts.values())
        self._passes.configure(text=passes_title(whole))
        rows = [
            BarRow(title, count / whole, format_passes(count))
            for title, count in labeled_passes(parts)
        ]
        self._parts.show(rows)
        self._outer.grid()

    def _passes_by_purpose(self) -> dict[str, float]:
        """Return the UNet passes of a step by purpose; {} for wrong settings or the VAE."""
        # Imported late, because opening the window does not need it.
        from onetrainer.rewards.cost import cost_of

        config = self._context.draft.valid_config()
        return {} if config is None else cost_of(_without_files(config)).step.by_purpose()


def _without_files(config: TrainConfig) -> TrainConfig:
    """Replace the prompts of a config, whose number does not change the cost of a step."""
    section = config.objective
    if not isinstance(section, AlignProp):
        return config
    section = section.model_copy(update={"prompts": Prompts(text="an image")})
    return config.model_copy(update={"objective": section})
