"""The question which step of which run is to be tried."""

import tkinter as tk
from pathlib import Path
from tkinter import ttk

from onetrainer.run.history import run_folders
from onetrainer.run.run_folder import RunFolder
from ui.context import Context
from ui.dialogs.dialogs import Choice, Dialog
from ui.model.trial import TrialLora

ADD = "add"
_MOST_RUNS = 60


def ask_step(context: Context) -> TrialLora | None:
    """Ask for a run and one of its kept checkpoints; return None if canceled, or there is none."""
    steps = _steps_by_run(context)
    if not steps:
        context.act.show_message("No run has a checkpoint yet, in the folder of runs of the form.")
        return None
    folders = {folder.name: folder for folder in steps}
    dialog, widgets = Dialog(context, "Try a step of a run"), context.widgets
    dialog.add_text(
        "The LoRA of a kept checkpoint is written when it is first needed, which loads the base"
        " model once more. “Keep checkpoints” on the page Output says how many a run keeps."
    )
    run, step = tk.StringVar(dialog.window), tk.StringVar(dialog.window)
    boxes = []
    for label, variable, name in (("Run", run, "answer run"), ("Step", step, "answer step")):
        dialog.add_text(label, style="")
        box = ttk.Combobox(
            dialog.body,
            textvariable=variable,
            state="readonly",
            font="OneTrainerBody",
            width=36,
            height=12,
        )
        box.pack(anchor="w", pady=(widgets.px(4), 0))
        widgets.name(box, name)
        boxes.append(box)

    def list_steps(*_: object) -> None:
        labels = [f"{each:,}" for each in reversed(steps[folders[run.get()]])]
        boxes[1].configure(values=labels)
        step.set(labels[0])

    run.trace_add("write", list_steps)
    boxes[0].configure(values=list(folders))
    run.set(next(iter(folders)))
    dialog.add_buttons([Choice(ADD, "Add", "primary"), Choice("", "Cancel")])
    if dialog.wait(focus=boxes[0]) != ADD:
        return None
    folder = folders[run.get()]
    return TrialLora(str(folder.path), step=int(step.get().replace(",", "")))


def _steps_by_run(context: Context) -> dict[RunFolder, list[int]]:
    """Return the steps of kept checkpoints, by run: first the one on Run, then the newest."""
    parent = Path(str(context.draft.value("output.folder") or "runs")).expanduser().absolute()
    shown = context.session.folder
    found = [*([shown] if shown else []), *run_folders(parent)[:_MOST_RUNS]]
    by_path = {folder.path: folder for folder in found}
    steps = {
        folder: [step for step, _ in folder.complete_checkpoints()] for folder in by_path.values()
    }
    return {folder: kept for folder, kept in steps.items() if kept}
