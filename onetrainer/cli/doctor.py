"""The command `onetrainer doctor`: this computer in lines to paste into a report."""

import argparse
import json
import platform
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from onetrainer.cli.screen import print_lines
from onetrainer.run.client import environment

PACKAGES = (
    *("torch", "diffusers", "transformers", "accelerate", "safetensors", "lycoris_lora"),
    *("customtkinter", "pydantic", "pillow"),
)


def doctor(_options: argparse.Namespace) -> int:
    """Print lines about the system, packages, window, GPU and disk."""
    # In processes of their own: this one loads neither tkinter nor torch.
    window, _ = _run("-c", "import tkinter; tkinter.Tk().destroy()")
    torch, output = _run("-m", "modules.devices")
    devices = [] if torch else json.loads(output.splitlines()[-1])
    return print_lines(
        [
            f"system: {platform.platform()}",
            f"python: {platform.python_version()} at {sys.executable}",
            *(f"{name}: {_version(name)}" for name in PACKAGES),
            f"window: {f'cannot be opened: {window}' if window else 'can be opened'}",
            *([f"torch cannot be loaded: {torch}"] if torch else []),
            *(f"device: {line}" for line in devices),
            f"free disk here: {shutil.disk_usage(Path.cwd()).free / 2**30:.1f} GiB",
        ]
    )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing; run start-ui.py again to install it"


def _run(*arguments: str) -> tuple[str, str]:
    """Run Python and return the last line of its error, "" for none, and its output."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment())
    reason = (done.stderr.strip().splitlines() or ["unknown"])[-1]
    return (reason if done.returncode else ""), done.stdout
