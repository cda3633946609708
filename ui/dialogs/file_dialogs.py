"""Choosing files and folders with the dialogs of the system."""

import tkinter as tk
from contextlib import suppress
from pathlib import Path
from tkinter import filedialog

from onetrainer.errors import UserError
from onetrainer.model_files.hub import is_hub_name
from onetrainer.presets.presets import expanded

MODEL_FILES: tuple[str, ...] = ("*.safetensors", "*.ckpt", "*.pt", "*.pth", "*.bin")


def hide_hidden_files(root: tk.Tk) -> None:
    """Has Tk's own dialogs on Linux leave out files that begin with a dot."""
    # They are loaded at their first use, before which there is nothing to set.
    with suppress(tk.TclError):
        root.tk.call("tk_getOpenFile", "-no-such-option")
    with suppress(tk.TclError):
        root.tk.call("set", "::tk::dialog::file::showHiddenBtn", "1")
        root.tk.call("set", "::tk::dialog::file::showHiddenVar", "0")


def choose_folder(current: str) -> str:
    """The folder that a person chooses; "" if none."""
    return (
        filedialog.askdirectory(initialdir=_initial_folder(current), title="Choose a folder") or ""
    )


def choose_file(current: str) -> str:
    """The file that a person chooses; "" if none."""
    return (
        filedialog.askopenfilename(initialdir=_initial_folder(current), title="Choose a file") or ""
    )


def choose_model(current: str) -> str:
    """The model file that a person chooses; "" if none."""
    kinds: list[tuple[str, str | tuple[str, ...]]] = [("Models", MODEL_FILES), ("All files", "*")]
    chosen = filedialog.askopenfilename(
        initialdir=_initial_folder(current), filetypes=kinds, title="Choose a model file"
    )
    return chosen or ""


def choose_preset(current: str) -> str:
    """The preset file that a person chooses; "" if none."""
    kinds = [("Presets", "*.json"), ("All files", "*")]
    chosen = filedialog.askopenfilename(
        initialdir=_initial_folder(current), filetypes=kinds, title="Open a preset"
    )
    return chosen or ""


def _initial_folder(current: str) -> str:
    """The folder to begin in: the nearest one that there is; home for what is no path."""
    path = Path.home()
    if current and not is_hub_name(current):
        with suppress(UserError):  # the home of somebody who is not there
            path = Path(expanded(current))
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return str(path)
