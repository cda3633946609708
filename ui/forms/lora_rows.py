"""List of LoRAs with their strengths, as a person chooses them."""

import tkinter as tk
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tkinter import ttk

from ui.context import Context
from ui.model.trial import TrialLora


@dataclass(frozen=True)
class _Row:
    box: ttk.Frame
    path: str
    strength: tk.StringVar


class LoraRows:
    """A row for each LoRA: its file, its strength, and a button that removes it."""

    def __init__(self, context: Context, parent: tk.Misc) -> None:
        self._context = context
        self._rows: list[_Row] = []
        widgets, px = context.widgets, context.widgets.px
        self._list = widgets.frame(parent)
        self._list.pack(fill="x")
        line = widgets.frame(parent)
        line.pack(anchor="w", pady=(px(4), 0))
        add = widgets.button(line, "Add a file…", self._choose, name="add trial lora")
        add.widget.pack(side="left", padx=(0, px(8)))
        newest = widgets.button(line, "The run's", self._add_of_run, name="add run lora")
        newest.describe("The newest file of the run on the page Run")
        newest.widget.pack(side="left")

    def listed(self) -> list[TrialLora]:
        """Return the LoRAs as they are typed."""
        return [TrialLora(row.path, row.strength.get()) for row in self._rows]

    def add(self, path: str) -> None:
        """Add a LoRA at full strength."""
        widgets, px = self._context.widgets, self._context.widgets.px
        box = widgets.frame(self._list)
        box.pack(fill="x", pady=(px(4), 0))
        row = _Row(box, path, tk.StringVar(box, "1"))
        widgets.button(
            box, "Remove", partial(self._remove, row), kind="quiet", name="remove trial lora"
        ).widget.pack(side="right")
        entry = ttk.Entry(box, textvariable=row.strength, font="OneTrainerBody", width=6)
        entry.pack(side="right", padx=px(6))
        widgets.name(entry, "trial strength")
        widgets.label(box, Path(path).stem[:34], style="Small").pack(side="left")
        self._rows.append(row)

    def _remove(self, row: _Row) -> None:
        self._rows.remove(row)
        self._context.widgets.forget(row.box)
        row.box.destroy()
        # A frame without children keeps its height.
        if not self._rows:
            self._list.configure(height=1)

    def _choose(self) -> None:
        path = self._context.act.choose_path("model", self._rows[-1].path if self._rows else "")
        if path:
            self.add(path)

    def _add_of_run(self) -> None:
        folder = self._context.session.folder
        found = sorted(
            folder.output.glob("*.safetensors") if folder else (),
            key=lambda path: path.stat().st_mtime,
        )
        if found:
            self.add(str(found[-1]))
        else:
            self._context.act.show_message("The run on the page Run has no file yet.")
