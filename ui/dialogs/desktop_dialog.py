"""File dialogs of the desktop on Linux: zenity's or kdialog's, which the desktop ships."""

import os
import subprocess
import tkinter as tk
from collections.abc import Mapping, Sequence
from pathlib import Path

from onetrainer.files.programs import find_program
from ui.widgets.widgets import focused

Patterns = Mapping[str, Sequence[str]]
"""Patterns of files by what they are called: {"Models": ["*.safetensors"]}."""

_POLL_MS = 50
_CANCELED = 1
_PROGRAMS = ("zenity", "kdialog")
_BUSY_TAG = "Busy"


def dialog_command(
    title: str, start: Path, patterns: Patterns | None, *, parent: int
) -> list[str] | None:
    """Return the command that opens the desktop's own dialog; None if there is none.

    Args:
        title: Of the dialog.
        start: The folder that it opens with.
        patterns: Of the files that are offered; None for a folder.
        parent: Window number of the window that it belongs to.
    """
    programs = list(_PROGRAMS)
    if "KDE" in os.environ.get("XDG_CURRENT_DESKTOP", "").split(":"):
        programs.reverse()
    for name in programs:
        path = find_program(name)
        if not path:
            continue
        if name == "kdialog":
            action = "--getexistingdirectory" if patterns is None else "--getopenfilename"
            shown = [f"{label} ({' '.join(those)})" for label, those in (patterns or {}).items()]
            # Of "|", which its help names, older ones make one filter.
            filters = ["\n".join(shown)] if shown else []
            return [path, action, str(start), *filters, "--title", title, "--attach", str(parent)]
        command = [path, "--file-selection", f"--title={title}", f"--filename={start}/", "--modal"]
        command.append(f"--attach={parent}")
        if patterns is None:
            return [*command, "--directory"]
        return [*command, *(f"--file-filter={k} | {' '.join(v)}" for k, v in patterns.items())]
    return None


def ask_desktop(root: tk.Tk, command: Sequence[str]) -> str | None:
    """Run a dialog's command while the window draws itself but takes no input.

    Returns:
        The chosen path, "" if canceled, and None if the program failed.
    """
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return None
    before, close_before = focused(root), str(root.protocol("WM_DELETE_WINDOW"))
    has_ended = tk.BooleanVar(root)

    def poll() -> None:
        if process.poll() is None:
            root.after(_POLL_MS, poll)
        else:
            has_ended.set(True)

    root.tk.call("tk", "busy", "hold", root)
    # Keys would still reach the window: its cover takes the focus, without any bindings.
    cover = "._Busy"
    root.tk.call("bindtags", cover, _BUSY_TAG)
    root.tk.call("focus", cover)
    root.protocol("WM_DELETE_WINDOW", "list")  # a command of Tcl that does nothing
    try:
        poll()
        root.wait_variable(has_ended)
    finally:
        if process.poll() is None:
            process.kill()
        chosen = os.fsdecode(process.communicate()[0]).rstrip("\n")
        root.protocol("WM_DELETE_WINDOW", close_before)
        root.tk.call("tk", "busy", "forget", root)
        if before is not None and before.winfo_exists():
            before.focus_set()
    if process.returncode not in (0, _CANCELED):
        return None
    return chosen if process.returncode == 0 else ""
