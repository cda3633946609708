"""Question whether Python code of the user may be run, showing it."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from onetrainer.checks.effects import (
    confirm_effects,
    is_own,
    new_base_downloads,
    new_effects,
)
from onetrainer.checks.user_code import user_functions
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.messages.formatting import counted
from onetrainer.presets.presets import resolve, with_absolute_paths
from onetrainer.rules.changes import config_at
from onetrainer.run.run_folder import RunFolder
from onetrainer.trust import trusted_files
from onetrainer.trust.function_file import UserFunction, find_function
from ui.context import Context
from ui.dialogs.dialogs import Choice, Dialog, show_error

_WHAT = {
    "unknown": "These settings name Python code. Its file runs"
    f" {trusted_files.PERMISSIONS}. Trust it only if you know what it does and where it comes"
    " from.",
    "changed": "This file has changed since you trusted it. Read it before you trust it again: it"
    f" runs {trusted_files.PERMISSIONS}.",
}


def untrusted_functions(config: TrainConfig) -> Iterator[str]:
    """Yield the functions of a config that are not trusted yet.

    Missing functions are skipped; they are reported with the other problems.
    """
    for spec in dict.fromkeys(user_functions(config).values()):
        if trusted_files.status(spec) in _WHAT:
            yield spec


def confirm_functions(context: Context, config: TrainConfig) -> bool:
    """Ask for each function that is not trusted yet; return whether all may be run.

    Args:
        context: Of the main window.
        config: With absolute paths.
    """
    return all(_confirm(context, spec) for spec in untrusted_functions(config))


def confirm_run(context: Context, run: RunFolder, config: TrainConfig, *, is_new: bool) -> bool:
    """Ask for what a run, whose folder may come from anybody, does elsewhere, and for its code."""
    lines = new_effects(config, run.path.parent, is_new=is_new, with_code=False)
    return _confirm_effects(context, run.name, lines) and confirm_functions(context, config)


def confirm_draft(context: Context, config: TrainConfig) -> bool:
    """Ask for what the settings of a file do elsewhere that this user has not saved, and for code.

    Not for what was written in the window: that is the person's own.
    """
    draft = context.draft
    file, lines = draft.origin.path, list[str]()
    if file is not None and not is_own(file):
        with suppress(UserError):  # what is not valid was written over since
            loaded = with_absolute_paths(resolve(draft.base, source=str(file)))
            lines = new_effects(loaded, file.absolute().parent, with_code=False)
            lines = [line for line in new_effects(config, file.absolute().parent) if line in lines]
    name = file.name if file else ""
    return _confirm_effects(context, name, lines) and confirm_functions(context, config)


def confirm_base_model(context: Context, run: RunFolder, step: int | None) -> bool:
    """Ask whether the base model of a run's checkpoint may be downloaded, if it is not here.

    Raises UserError if there is no such checkpoint.
    """
    lines = new_base_downloads(config_at(run, step))
    return _confirm_effects(context, run.name, lines, verb="Write the file")


def _confirm_effects(
    context: Context, name: str, lines: Sequence[str], verb: str = "Start the run"
) -> bool:
    """Ask for effects. verb: What is on the button that agrees."""
    if not lines:
        return True
    dialog = Dialog(context, "What these settings do elsewhere")
    dialog.add_text(f"A run with the settings of {name}")
    for line in lines:
        dialog.add_text(f"• {line}", style="Bold")
    dialog.add_text("If they come from somebody else, agree only if you expect this.")
    # The safe answer first, because Return takes it.
    dialog.add_buttons([Choice("", "Cancel", "primary"), Choice("start", verb)])
    if dialog.wait() != "start":
        return False
    confirm_effects(lines)
    return True


def _confirm(context: Context, spec: str) -> bool:
    """Ask for one function, and again if its file changes while the dialog is open."""
    try:
        while (status := trusted_files.status_of(function := find_function(spec))) != "trusted":
            if not _show_dialog(context, function, _WHAT[status]):
                return False
            # Trust exactly the code that was shown; if it has changed, show it again.
            trusted_files.trust(function)
    except UserError as error:
        show_error(context, error)
        return False
    return True


def _show_dialog(context: Context, function: UserFunction, explanation: str) -> bool:
    dialog = Dialog(context, f"Run “{function.name}”?")
    dialog.add_text(explanation)
    dialog.add_text(str(function.file), style="Bold")
    if others := len(function.files) - 1:
        dialog.add_text(f"and {counted(others, 'file')} that it imports; all of them are below.")
    # Wrapped, as code can stand far to the right of what is seen.
    dialog.add_code(trusted_files.preview(function), hang=trusted_files.CODE_COLUMN + 4)
    # The safe answer first, because Return takes it.
    dialog.add_buttons([Choice("", "Do not run", "primary"), Choice("run", "Run this code")])
    return dialog.wait() == "run"
