"""The question which step of which run is to be tried."""

import tkinter as tk
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from tkinter import ttk

from onetrainer.errors import UserError
from onetrainer.json_file import read_json
from onetrainer.run.history import run_folders
from onetrainer.run.run_folder import RunFolder
from onetrainer.run.steps import available_steps
from ui.context import Context
from ui.dialogs.dialogs import Choice, Dialog
from ui.model.run_parents import run_parents
from ui.model.trial import TrialLora
from ui.widgets.changes import on_change

ADD = "add"
_NO_ADAPTERS = ("full", "vae", "embedding")
_MOST_RUNS = 60


Steps = Mapping[RunFolder, Sequence[int]]


def step_reader(context: Context) -> Callable[[], Steps]:
    """Return what reads which steps there are, in a thread: some disks take long to be missed."""
    return partial(_steps_by_run, context.draft.value("output.folder"), context.session.folder)


def ask_step(context: Context, steps: Steps) -> TrialLora | None:
    """Ask for a run and a step whose weights are there; return None if canceled, or none is."""
    if not steps:
        context.act.show_message("No run of a LoRA on this computer has a checkpoint yet.")
        return None
    folders = _labeled(steps)
    dialog, widgets = Dialog(context, "Try a step of a run"), context.widgets
    dialog.add_text(
        "These are the steps whose weights are still there: of the newest checkpoints (“Keep"
        " checkpoints” on the page Output), of steps with a star, and those in files (“Export"
        " every”). The LoRA of a checkpoint is written when it is first needed, for which the base"
        " model is loaded once more."
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

    def list_steps() -> None:
        labels = [f"{each:,}" for each in reversed(steps[folders[run.get()]])]
        boxes[1].configure(values=labels)
        step.set(labels[0])

    on_change(run, dialog.window, list_steps)
    boxes[0].configure(values=list(folders))
    run.set(next(iter(folders)))
    dialog.add_buttons([Choice(ADD, "Add", "primary"), Choice("", "Cancel")])
    if dialog.wait(focus=boxes[0]) != ADD:
        return None
    folder = folders[run.get()]
    return TrialLora(str(folder.path), step=int(step.get().replace(",", "")))


def _changed(run: RunFolder) -> float:
    with suppress(OSError):  # it was deleted a moment ago
        return run.config.stat().st_mtime
    return 0.0


def _labeled(runs: Iterable[RunFolder]) -> dict[str, RunFolder]:
    """Return runs by their names, with the folder where two have the same name."""
    labeled: dict[str, RunFolder] = {}
    for run in runs:
        labeled[f"{run.name} in {run.path.parent}" if run.name in labeled else run.name] = run
    return labeled


def _steps_by_run(output_folder: object, shown: RunFolder | None) -> Steps:
    """Return the steps of runs of adapters: first of the one on Run, then of the newest."""
    parents = run_parents(output_folder)
    latest = sorted(run_folders(*parents), key=_changed, reverse=True)
    found = [*([shown] if shown else []), *latest[:_MOST_RUNS]]
    by_path = {folder.path: folder for folder in found}
    steps = {folder: available_steps(folder) for folder in by_path.values() if _is_adapter(folder)}
    return {folder: kept for folder, kept in steps.items() if kept}


def _is_adapter(folder: RunFolder) -> bool:
    """Return whether a run trains what can be added to a base model."""
    try:
        method = read_json(folder.config).get("method")
    except UserError:
        return False
    return not (isinstance(method, dict) and method.get("kind") in _NO_ADAPTERS)
