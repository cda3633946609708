"""What this computer has for training, in lines that can be pasted into a report."""

import json
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

PACKAGES = (
    "torch",
    "diffusers",
    "transformers",
    "accelerate",
    "safetensors",
    "lycoris_lora",
    "customtkinter",
    "pydantic",
    "pillow",
)
_PROBE_TIMEOUT = 120


def report() -> list[str]:
    """System, packages, window, graphics card and disk; a line each."""
    return [
        f"system: {platform.platform()}",
        f"python: {platform.python_version()} at {sys.executable}",
        *(f"{name}: {_version(name)}" for name in PACKAGES),
        f"window: {_window()}",
        *_devices(),
        f"free disk here: {shutil.disk_usage(Path.cwd()).free / 2**30:.1f} GiB",
    ]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing; run start-ui.py again to install it"


def _window() -> str:
    """Asked of a process of its own: this one must not load tkinter, nor open a window."""
    code = "import tkinter; tkinter.Tk().destroy()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=_PROBE_TIMEOUT
    )
    if done.returncode == 0:
        return "can be opened"
    return "cannot be opened: " + (done.stderr.strip().splitlines() or ["unknown"])[-1]


def _devices() -> list[str]:
    """Asked of a process of its own: torch belongs to the engine alone."""
    done = subprocess.run(
        [sys.executable, "-m", "modules.devices"],
        capture_output=True,
        text=True,
        timeout=_PROBE_TIMEOUT,
    )
    if done.returncode != 0:
        return ["torch cannot be loaded: " + (done.stderr.strip().splitlines() or [""])[-1]]
    found = json.loads(done.stdout.splitlines()[-1])
    return [f"device: {line}" for line in found]
