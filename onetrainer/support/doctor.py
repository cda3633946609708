"""Examination of this computer. Only the standard library is needed, so that it works if packages
are missing; torch and tkinter are asked in processes of their own.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from onetrainer import IS_PACKAGE, ROOT, __version__, install_command
from onetrainer.files.lines import split_lines
from onetrainer.run.client import environment
from onetrainer.support.devices import device_findings
from onetrainer.support.findings import Finding, note, problem

_IN_CHECKOUT = f'"{sys.executable}" -m pip install -c "{ROOT / "constraints.txt"}" -e "{ROOT}"'
INSTALL = f"Install what is missing: {install_command() if IS_PACKAGE else _IN_CHECKOUT}"
_LITTLE_RAM, _LITTLE_DISK, _TOO_LITTLE_DISK = 8 << 30, 10 << 30, 1 << 30
_TIMEOUT = 120.0


def examine() -> Iterator[Finding]:
    """Yield a finding for each part of this computer, the self-test excepted."""
    yield from _system()
    yield from package_findings(requirements())
    document, reason = _ask("-m", "modules.devices")
    yield from device_findings(document, reason)
    yield from _memory()
    yield from disk_findings({"here": Path.cwd(), "temporary files": Path(tempfile.gettempdir())})
    yield from window_findings(*_ask("-m", "ui", "--check"))


def _system() -> Iterator[Finding]:
    yield Finding("system", f"OneTrainer {__version__} on {platform.platform()}")
    kind = "in a virtual environment" if sys.prefix != sys.base_prefix else "no virtual environment"
    python = f"{platform.python_version()} at {sys.executable}, {kind}"
    if not (3, 11) <= sys.version_info[:2] < (3, 14):
        yield problem(
            "python",
            f"{python}; the program needs Python 3.11 to 3.13",
            "Install one of these as well, and start with it: python3.13 start-ui.py",
        )
    elif sys.prefix == sys.base_prefix:
        yield note("python", python, "Install it into one: python3 -m venv, or start-ui.py.")
    else:
        yield Finding("python", python)


def requirements() -> list[str]:
    """Return the pinned requirements as package metadata has them: `name==1.0; extra == "x"`."""
    if IS_PACKAGE:
        return metadata.requires("onetrainer") or []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    of_extras = [f'{pin}; extra == "{name}"' for name, pins in extras.items() for pin in pins]
    return [*project["dependencies"], *of_extras]


def package_findings(requirements: list[str]) -> Iterator[Finding]:
    """Yield which packages are installed, compared with pinned requirements."""
    pins: dict[str, str] = {}
    extras: dict[str, list[str]] = {}
    for requirement in requirements:
        pin, _, marker = requirement.partition(";")
        name, _, version = pin.strip().partition("==")
        if marker:
            extras.setdefault(marker.split('"')[1], []).append(name)
        elif version:
            pins[name] = version
    found = {name: _version(name) for name in pins}
    listed = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    yield Finding("packages", listed or "none")
    if missing := [f"{name} {pins[name]}" for name, version in found.items() if not version]:
        yield problem("packages", f"not installed: {', '.join(missing)}", INSTALL)
    other = [
        f"{name} {version} (pinned: {pins[name]})"
        for name, version in found.items()
        if version and version.partition("+")[0] != pins[name]
    ]
    if other:
        yield note("packages", f"of other versions than tested: {', '.join(other)}", INSTALL)
    for extra, names in extras.items():
        text = ", ".join(names)
        if not all(map(_version, names)):
            text = f"not installed; optional: {install_command(extra)}"
        if extra != "test":
            yield Finding(f"extra {extra}", text)


def _version(package: str) -> str:
    """Return the version of an installed package; "" if it is missing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _memory() -> Iterator[Finding]:
    try:
        import psutil
    except ImportError:
        yield note("memory", "unknown, as psutil is not installed", INSTALL)
        return
    memory = psutil.virtual_memory()
    total, free = memory.total, memory.available
    try:  # of a container
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        total = min(total, int(limit)) if limit.isdecimal() else total
    except OSError:
        pass
    text = f"{total / 2**30:.1f} GB of RAM, {min(free, total) / 2**30:.1f} free"
    if min(free, total) < _LITTLE_RAM:
        yield note(
            "memory",
            text,
            "Loading a model takes 4 to 16 GB. Close other programs.",
        )
    else:
        yield Finding("memory", text)


def disk_findings(places: dict[str, Path]) -> Iterator[Finding]:
    """Yield for each folder whether it can be written to, and how much is free there."""
    for name, path in places.items():
        area = f"disk, {name}"
        try:
            free = shutil.disk_usage(path).free
            text = f"{free / 1e9:.1f} GB free at {path}"
            with tempfile.TemporaryFile(dir=path):
                pass
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            yield problem(
                area,
                f"{path} cannot be written to ({reason})",
                "Free space on its disk or correct its permissions; start from a folder of yours.",
            )
            continue
        if free < _TOO_LITTLE_DISK:
            yield problem(area, text, "Free some space: checkpoints and files need gigabytes.")
        elif free < _LITTLE_DISK:
            yield note(area, text, "A checkpoint of full fine-tuning takes 10 GB or more.")
        else:
            yield Finding(area, text)


def window_findings(document: dict[str, object], reason: str) -> Iterator[Finding]:
    """Yield whether a window can be opened, and its font, as `python -m ui --check` reports them.

    reason: Why it reported nothing; "" if it did.
    """
    if reason or document.get("problem"):
        is_headless = sys.platform == "linux" and not os.environ.get("DISPLAY")
        remedy = "Log in to a desktop, or set DISPLAY." if is_headless else ""
        yield note("window", str(reason or document["problem"]), remedy)
        return
    yield Finding(
        "window", "can be opened, Tk {tk}, {size} pixels, scale {scale}".format(**document)
    )
    if document["font"] == "TkDefaultFont":
        yield note(
            "fonts",
            f"none of the window's fonts among {document['fonts']} families",
            "Install a font such as Noto Sans or DejaVu Sans.",
        )
    else:
        yield Finding("fonts", "{font} and {mono}, of {fonts} families".format(**document))
    if sys.platform == "linux":
        yield _desktop()


def _desktop() -> Finding:
    """Return how files are chosen and folders opened on a desktop of Linux."""
    opener = shutil.which("xdg-open")
    if opener:
        return Finding(
            "desktop", f"files are chosen in Tk's dialogs (no portal), opened by {opener}"
        )
    return note(
        "desktop",
        "xdg-open is missing: the window cannot open folders, and copies their paths instead",
        "Install xdg-utils.",
    )


def _ask(*arguments: str) -> tuple[dict[str, object], str]:
    """Run Python, which is to print JSON; return it, and why there is none or ""."""
    command = [sys.executable, *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            env=environment(),
            check=False,
        )
        return dict(json.loads(split_lines(done.stdout)[-1])), ""
    except subprocess.TimeoutExpired:
        return {}, f"no answer within {_TIMEOUT:.0f} seconds"
    except (ValueError, IndexError):
        lines = split_lines(done.stderr.strip())
        return {}, lines[-1] if lines else f"it ended with exit code {done.returncode}"
