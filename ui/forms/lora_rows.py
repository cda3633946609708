"""List of LoRAs with their strengths, as a person chooses them."""

import tkinter as tk
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from tkinter import ttk

from ui.background.threads import OneAtATime
from ui.context import Context
from ui.dialogs.step_dialog import Steps, ask_step, step_reader
from ui.model.trial import TrialLora
from ui.widgets.changes import on_change


@dataclass(frozen=True)
class _Row:
    box: ttk.Frame
    lora: TrialLora
    strength: tk.StringVar


class LoraRows:
    """A row for each LoRA: its file, its strength, and a button that removes it.

    Args:
        changed: Called when one is added or removed.
        kept_as: By which name the list is kept; "" for not.
    """

    def __init__(
        self,
        context: Context,
        parent: tk.Misc,
        changed: Callable[[], None] = lambda: None,
        *,
        kept_as: str = "",
    ) -> None:
        self._context, self._changed, self._kept_as = context, changed, kept_as
        self._rows: list[_Row] = []
        self._steps = OneAtATime(context.widgets.jobs, self._ask_soon)
        widgets, px = context.widgets, context.widgets.px
        self._list = widgets.frame(parent)
        self._list.pack(fill="x")
        line = widgets.frame(parent)
        line.pack(anchor="w", pady=(px(4), 0))
        add = widgets.button(line, "Add a file…", self._choose, name="add trial lora")
        add.widget.pack(side="left", padx=(0, px(8)))
        of_run = widgets.button(line, "A run's step…", self._add_of_run, name="add run lora")
        of_run.describe("What a run had trained by a step whose weights are still there")
        of_run.widget.pack(side="left")
        for lora in widgets.kept.value(kept_as, list[TrialLora]()):
            self._show(lora)

    def listed(self) -> list[TrialLora]:
        """Return the LoRAs as they are typed."""
        return [replace(row.lora, strength=row.strength.get()) for row in self._rows]

    def add(self, lora: TrialLora) -> None:
        """Add a LoRA."""
        self._show(lora)
        self._keep()
        self._changed()

    def _show(self, lora: TrialLora) -> None:
        widgets, px = self._context.widgets, self._context.widgets.px
        box = widgets.frame(self._list)
        box.pack(fill="x", pady=(px(4), 0))
        row = _Row(box, lora, tk.StringVar(box, lora.strength))
        widgets.button(
            box, "Remove", partial(self._remove, row), kind="quiet", name="remove trial lora"
        ).widget.pack(side="right")
        entry = ttk.Entry(box, textvariable=row.strength, font="OneTrainerBody", width=6)
        entry.pack(side="right", padx=px(6))
        widgets.name(entry, "trial strength")
        widgets.label(box, lora.name[:34], style="Small").pack(side="left")
        self._rows.append(row)
        on_change(row.strength, entry, self._keep)

    def _keep(self) -> None:
        if self._kept_as:
            self._context.widgets.kept.keep(self._kept_as, self.listed())

    def _remove(self, row: _Row) -> None:
        self._rows.remove(row)
        self._keep()
        self._context.widgets.forget(row.box)
        row.box.destroy()
        # A frame without children keeps its height.
        if not self._rows:
            self._list.configure(height=1)
        self._changed()

    def _choose(self) -> None:
        last = self._rows[-1].lora.path if self._rows else ""
        path = self._context.act.choose_path("model", last)
        if path:
            self.add(TrialLora(path))

    def _add_of_run(self) -> None:
        self._steps.ask(step_reader(self._context))

    def _ask_soon(self, steps: Steps) -> None:
        # Asked outside of what delivers results, which would stand still until the answer.
        self._context.root.after(1, self._ask, steps)

    def _ask(self, steps: Steps) -> None:
        chosen = ask_step(self._context, steps)
        if chosen is not None:
            self.add(chosen)
