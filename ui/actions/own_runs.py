"""What is done to runs in their list: continue, fork, queue, rename, delete with a way back."""

import tkinter as tk
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tkinter import ttk

from onetrainer.errors import UserError
from onetrainer.messages.formatting import counted
from onetrainer.presets.presets import load_document, resolve, with_absolute_paths
from onetrainer.queue.freeze import freeze_again
from onetrainer.queue.queue import Queue
from onetrainer.run.deleted import delete_run, restore_run, size_of_run
from onetrainer.run.record import RunRecord
from onetrainer.run.run_folder import open_run
from ui.context import Context, Offer
from ui.dialogs.dialogs import Choice, Dialog, ask, once_free, report_failure, show_error
from ui.dialogs.trust_dialog import confirm_run
from ui.progress.units import format_bytes

_LOOK_AGAIN_MS = 20


def continue_run(context: Context, path: Path) -> None:
    """Show a run, and resume it as soon as all that it has reported was read."""
    session = context.session
    context.act.attach(path)

    def resume() -> None:
        folder = session.folder
        if folder is None or folder.path != path or session.is_running:
            return
        if session.has_worker:
            context.root.after(_LOOK_AGAIN_MS, resume)
        else:
            context.act.resume()

    resume()


def fork_run(context: Context, path: Path) -> None:
    """Show a run, and ask from which of its checkpoints a new one goes on."""
    context.act.attach(path)
    folder = context.session.folder
    if folder is not None and folder.path == path:
        context.act.fork()


def queue_again(context: Context, record: RunRecord) -> None:
    """Add a run to the queue: to go on, or as a new one with its settings if it has ended."""
    path = record.path
    is_over = record.summary.standing == "finished"
    try:
        run = open_run(path)
        config = resolve(load_document(run.config, goes_on=not is_over), source=str(run.config))
        if not confirm_run(context, run, with_absolute_paths(config), is_new=is_over):
            return
    except UserError as error:
        report_failure(context, error)
        return

    def add() -> str:
        folder, queue = open_run(path), Queue()
        if is_over:
            folder = freeze_again(folder)
        queue.add([folder])
        how = f"with the settings of “{record.name}”" if is_over else "to go on where it is"
        return f"“{folder.name}” is in the queue, {how}."

    def added(text: str) -> None:
        show_queue = partial(context.act.show_page, "queue")
        offer = Offer("Show the queue", "show queue", show_queue, lambda: True)
        context.act.show_message(text, offer)

    context.widgets.jobs.run(add, added, partial(report_failure, context))


def ask_label(context: Context, record: RunRecord) -> str | None:
    """Ask for the name that a run has in lists; None if canceled, "" for that of its folder."""
    dialog = Dialog(context, f"Rename “{record.name}”")
    dialog.add_text(
        f"The name in this list. The folder stays {record.path.name}, so that the run can be "
        "resumed and whatever refers to it finds it. Empty is the folder's name."
    )
    text = tk.StringVar(dialog.window, record.name)
    entry = ttk.Entry(dialog.body, textvariable=text, font="OneTrainerBody", width=46)
    entry.pack(fill="x", pady=(context.widgets.px(10), 0))
    entry.bind("<Return>", lambda _: dialog.close("rename"))
    entry.selection_range(0, "end")
    context.widgets.name(entry, "answer label")
    dialog.add_buttons([Choice("rename", "Rename", "primary"), Choice("", "Cancel")])
    if dialog.wait(entry) != "rename":
        return None
    label = " ".join(text.get().split())
    return "" if label == record.path.name else label


def delete_runs(
    context: Context, records: Sequence[RunRecord], changed: Callable[[], object]
) -> None:
    """Say the size of runs, ask, and move them away; offer to undo it. changed: Called after."""
    paths = [record.path for record in records]
    what = f"“{records[0].name}”" if len(records) == 1 else counted(len(records), "run")

    def measured(size: int) -> None:
        place = paths[0].parent / "deleted runs"
        answer = ask(
            context,
            f"Delete {what}?",
            f"{format_bytes(size)} with all samples, checkpoints and files. It is moved to {place},"
            " from where it can be brought back; the disk has more room once you empty that "
            "folder.",
            [Choice("delete", "Delete", "danger"), Choice("", "Cancel")],
        )
        if answer:
            jobs.run(move, moved, partial(report_failure, context))

    def move() -> list[tuple[Path, Path]]:
        _leave_queue(paths)
        return [(delete_run(path), path) for path in paths]

    def moved(places: list[tuple[Path, Path]]) -> None:
        session = context.session
        if session.folder is not None and session.folder.path in paths:
            session.leave()
            context.act.refresh()
            context.act.save_state_soon()

        def restore() -> None:
            try:
                for deleted, path in places:
                    restore_run(deleted, path)
            except UserError as error:
                show_error(context, error)
            changed()

        offer = Offer("Undo", "undo delete run", restore, lambda: places[0][0].exists())
        context.act.show_message(f"Deleted {what}. Kept in {places[0][0].parent}.", offer)
        changed()

    jobs = context.widgets.jobs
    jobs.run(
        lambda: sum(map(size_of_run, paths)),
        lambda size: once_free(context.root, partial(measured, size)),
    )


def _leave_queue(paths: Sequence[Path]) -> None:
    """Take runs out of the queue. Raises UserError if one of them is running there."""
    queue = Queue()
    queued = {entry.run for entry in queue.read().entries}
    for path in paths:
        if str(path) in queued:
            queue.remove(path)
