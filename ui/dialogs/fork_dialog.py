"""The question from which checkpoint a fork goes on, and with which settings."""

import tkinter as tk
from tkinter import ttk

from onetrainer.run.run_folder import RunFolder
from ui.context import Context
from ui.dialogs.dialogs import Choice, Dialog

OWN, FORM = "own settings", "form"


def ask_fork(context: Context, source: RunFolder) -> tuple[int, str]:
    """Ask for a kept checkpoint of a run; return its step, and OWN, FORM or "" if canceled."""
    steps = {f"Step {step:,}": step for step, _ in source.complete_checkpoints()}
    dialog, widgets = Dialog(context, f"Fork “{source.name}”"), context.widgets
    dialog.add_text(
        "A new run goes on from a checkpoint, with all that was before it; this run stays as it is."
        " With its own settings it gives the same files again, with others another continuation."
    )
    dialog.add_text("Go on from", style="")
    chosen = tk.StringVar(dialog.window, list(steps)[-1])
    box = ttk.Combobox(
        dialog.body,
        values=list(steps),
        textvariable=chosen,
        state="readonly",
        font="OneTrainerBody",
        height=12,
    )
    box.pack(anchor="w", pady=(widgets.px(4), 0))
    widgets.name(box, "answer step")
    dialog.add_buttons(
        [
            Choice(OWN, "With its settings", "primary"),
            Choice(FORM, "With those of this window"),
            Choice("", "Cancel"),
        ]
    )
    answer = dialog.wait()
    return steps[chosen.get()], answer
