"""File and folder dialogs of the system."""

import tkinter as tk
from contextlib import suppress
from pathlib import Path
from tkinter import filedialog

from onetrainer.errors import UserError
from onetrainer.model_files.hub import is_hub_name
from onetrainer.presets.find import expanded

MODEL_FILES: tuple[str, ...] = ("*.safetensors", "*.ckpt", "*.pt", "*.pth", "*.bin")


def hide_hidden_files(root: tk.Tk) -> None:
    """Hide files that begin with a dot in Tk's own dialogs on Linux."""
    # A first call loads the dialogs; only then are there variables to set.
    with suppress(tk.TclError):
        root.tk.call("tk_getOpenFile", "-no-such-option")
    with suppress(tk.TclError):
        root.tk.call("set", "::tk::dialog::file::showHiddenBtn", "1")
        root.tk.call("set", "::tk::dialog::file::showHiddenVar", "0")


def choose_folder(current: str) -> str:
    """Let the user choose a folder; "" if canceled."""
    return (
        filedialog.askdirectory(initialdir=_initial_folder(current), title="Select a folder") or ""
    )


def choose_file(current: str) -> str:
    """Let the user choose a file; "" if canceled."""
    return _choose_file(current, "Select a file")


def choose_model(current: str) -> str:
    """Let the user choose a model file; "" if canceled."""
    return _choose_file(current, "Select a model file", ("Models", MODEL_FILES))


def choose_preset(current: str) -> str:
    """Let the user choose a preset file; "" if canceled."""
    return _choose_file(current, "Open a preset", ("Presets", "*.json"))


def _choose_file(current: str, title: str, *types: tuple[str, str | tuple[str, ...]]) -> str:
    known = [*types, ("All files", "*")]
    folder = _initial_folder(current)
    return filedialog.askopenfilename(initialdir=folder, filetypes=known, title=title) or ""


def _initial_folder(current: str) -> str:
    """Return the nearest existing folder of a path; the home folder for other text."""
    path = Path.home()
    if current and not is_hub_name(current):
        with suppress(UserError):  # the home of an unknown user
            path = Path(expanded(current))
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return str(path)
