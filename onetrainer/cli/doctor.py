"""The GPU, packages and system of this computer, as lines to paste into a report."""

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
    """Return lines about the system, packages, window, GPU and disk."""
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
    """Test in another process whether a window can open: this process must not load tkinter."""
    code = "import tkinter; tkinter.Tk().destroy()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=_PROBE_TIMEOUT
    )
    if done.returncode == 0:
        return "can be opened"
    return "cannot be opened: " + (done.stderr.strip().splitlines() or ["unknown"])[-1]


def _devices() -> list[str]:
    """List the devices in another process, since only the engine may load torch."""
    done = subprocess.run(
        [sys.executable, "-m", "modules.devices"],
        capture_output=True,
        text=True,
        timeout=_PROBE_TIMEOUT,
    )
    if done.returncode != 0:
        return ["torch cannot be loaded: " + (done.stderr.strip().splitlines() or [""])[-1]]
    devices = json.loads(done.stdout.splitlines()[-1])
    return [f"device: {line}" for line in devices]
