"""Dialogs that choose a file or folder: the desktop's own, or the window's where it has none."""

import sys
import tkinter as tk
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.model_files.hub import is_hub_name
from onetrainer.presets.find import expanded
from ui.context import Context, PathKind
from ui.dialogs.desktop_dialog import Patterns, ask_desktop, dialog_command
from ui.dialogs.file_browser import browse
from ui.dialogs.model_dialog import choose_model

_ALL_FILES: Patterns = {"All files": ["*"]}
_MOST_FOLDERS = 8
_TITLES: Mapping[PathKind, str] = {
    "folder": "Select a folder",
    "file": "Select a file",
    "model": "Select a model file",
    "preset": "Open a preset",
}
_PATTERNS: Mapping[PathKind, Patterns] = {
    "file": _ALL_FILES,
    "model": {
        "Models": ["*.safetensors", "*.ckpt", "*.pt", "*.pth", "*.bin"],
        **_ALL_FILES,
    },
    "preset": {"Presets": ["*.json"], **_ALL_FILES},
}


def choose_path(context: Context, kind: PathKind, current: str) -> str:
    """Let the user choose a path, beginning where the current one is; "" if canceled."""
    if kind == "known-model":
        return choose_model(context)
    start, title = _initial_folder(current, context.window_state.folders), _TITLES[kind]
    chosen = _choose(context, kind, start, title)
    if chosen:
        folder = chosen if kind == "folder" else str(Path(chosen).parent)
        before = [other for other in context.window_state.folders if other != folder]
        context.window_state.folders = [folder, *before][:_MOST_FOLDERS]
        context.act.save_state_soon()
    return chosen


def _choose(context: Context, kind: PathKind, start: Path, title: str) -> str:
    patterns = _PATTERNS.get(kind)
    if sys.platform in ("win32", "darwin"):
        return _ask_system(context.root, title, start, patterns)
    command = dialog_command(title, start, patterns, parent=_window_number(context.root))
    chosen = ask_desktop(context.root, command) if command else None
    return browse(context, title, start, patterns) if chosen is None else chosen


def _ask_system(root: tk.Tk, title: str, start: Path, patterns: Patterns | None) -> str:
    from tkinter import filedialog

    if patterns is None:
        return filedialog.askdirectory(parent=root, initialdir=start, title=title) or ""
    types = [(label, tuple(those)) for label, those in patterns.items()]
    return (
        filedialog.askopenfilename(parent=root, initialdir=start, filetypes=types, title=title)
        or ""
    )


def _window_number(root: tk.Tk) -> int:
    """Return the number of the window as the window manager knows it, with its frame."""
    return int(root.tk.call("wm", "frame", root), 16)


def _initial_folder(current: str, before: Sequence[str] = ()) -> Path:
    """Return the nearest existing folder of a path; for other text the folder of last time.

    before: Folders that were chosen from, the newest first.
    """
    path = next((folder for folder in map(Path, before) if folder.is_dir()), Path.home())
    if current and not is_hub_name(current):
        with suppress(UserError):  # the home of an unknown user
            path = Path(expanded(current)).absolute()
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return path
