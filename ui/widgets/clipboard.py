"""Texts and images on the clipboard, for other programs."""

import base64
import os
import subprocess
import sys
import tkinter as tk
from collections.abc import Callable
from pathlib import Path

from onetrainer.files.programs import find_program
from ui.background.threads import Jobs

_TIMEOUT_S = 20.0
_NO_WINDOW = 0x08000000 if sys.platform == "win32" else 0
# X11 has images by their type beside the text. Decoded by Tcl, as tkinter ends a text of its own
# at the first zero byte.
_APPEND_PNG = "clipboard append -type image/png -format STRING -- [binary decode base64 {%s}]"
_APPLESCRIPT = (
    "on run paths",
    "set the clipboard to (read (POSIX file (item 1 of paths)) as «class PNGf»)",
    "end run",
)
# Not a part of the script, where several quotes would end it.
_PATH_VARIABLE = "ONETRAINER_IMAGE"
_POWERSHELL = (
    "Add-Type -AssemblyName System.Windows.Forms, System.Drawing;"
    " [System.Windows.Forms.Clipboard]::SetImage("
    f"[System.Drawing.Image]::FromFile($env:{_PATH_VARIABLE}))"
)


def copy_text(root: tk.Tk, text: str) -> None:
    """Copy a text."""
    root.clipboard_clear()
    root.clipboard_append(text)


def copy_png(root: tk.Tk, jobs: Jobs, path: Path, done: Callable[[bool], None]) -> None:
    """Copy the image of a PNG file, or its path where the system takes no image.

    On X11, and so with Wayland, a program that pastes text gets the path.

    done: Called with whether the image was copied.
    """
    copy_text(root, str(path))
    if str(root.tk.call("tk", "windowingsystem")) == "x11":
        try:
            content = path.read_bytes()
        except OSError:
            done(False)
            return
        root.tk.eval(_APPEND_PNG % base64.b64encode(content).decode())
        done(True)
        return
    command = _command(path)
    jobs.run(lambda: _has_run(command, path), done)


def _command(path: Path) -> list[str]:
    """Return the command that copies an image on macOS or Windows."""
    if sys.platform == "darwin":
        lines = [word for line in _APPLESCRIPT for word in ("-e", line)]
        return [find_program("osascript"), *lines, str(path)]
    return [find_program("powershell"), "-NoProfile", "-STA", "-Command", _POWERSHELL]


def _has_run(command: list[str], path: Path) -> bool:
    if not command[0]:
        return False
    try:
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=True,
            env=os.environ | {_PATH_VARIABLE: str(path)},
            creationflags=_NO_WINDOW,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True
