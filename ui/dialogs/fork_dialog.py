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
        "Starts a new run from a checkpoint, with the history up to there. This run stays as it is."
        " With the settings of this run the steps that follow are the same again; with those in the"
        " form they are made with whatever you have changed."
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
            Choice(OWN, "Settings of this run", "primary"),
            Choice(FORM, "Settings in the form"),
            Choice("", "Cancel"),
        ]
    )
    answer = dialog.wait()
    return steps[chosen.get()], answer
