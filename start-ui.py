#!/usr/bin/env python3
"""Install OneTrainer into `.venv` in this folder, then open its window with the demo loaded.

Uses only the standard library and only syntax that Python 3.6 can parse (other annotations are
quoted), so that an old Python prints a message instead of a traceback.
"""

import argparse
import contextlib
import csv
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent
VENV = PROJECT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
LOG, LOCK, STAMP = VENV / "setup.log", VENV / "setup.lock", VENV / "setup-stamp.json"
DOWNLOADS = VENV / "tmp"  # /tmp is often small and in memory; torch is gigabytes
OLDEST, TOO_NEW = (3, 11), (3, 14)  # requires-python of pyproject.toml, unreadable to an old Python
EXIT_USER, EXIT_STOPPED = 2, 3  # as in onetrainer/errors.py
GB = 1000**3
DISK_FULL_TEXT = f"the disk of {PROJECT} is full. 6 GB are needed. Free some space and start again."
CONSTRAINTS = PROJECT / "constraints.txt"
PIP_INSTALL = ["-m", "pip", "install", "-c", CONSTRAINTS.name, "--no-input", "--progress-bar=off"]
PIP_SETTINGS = {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUNBUFFERED": "1"}
TICK = 0.25  # seconds between two checks of a running step
DISK_FULL = re.compile(r"No space left on device|Errno 28\b|Disk quota exceeded|WinError 112\b")
NO_NETWORK = re.compile(
    r"NewConnection|NameResolution|Failed to establish|getaddrinfo|Temporary failure in name"
    r"|Network is unreachable|ConnectTimeout|ReadTimeout|Max retries exceeded|ProxyError"
    r"|SSLError|ConnectionReset|Connection refused|IncompleteRead|Connection broken"
)


class SetupError(Exception):
    """A setup error for the user: what is wrong, what was expected, what to do, in one line."""


def main(arguments: "list[str]") -> int:
    """Install what is missing, then open the window, or train in the terminal without a display."""
    try:
        check_python(sys.version_info[:2])
        options = parse(arguments)
        if not is_current(options.extra):
            set_up(options.extra)
        return 0 if options.setup_only else start(options.preset)
    except SetupError as error:
        print(f"start-ui.py: {error}", file=sys.stderr)
        return EXIT_USER
    except KeyboardInterrupt:
        print("start-ui.py: interrupted. Start it again to continue.", file=sys.stderr)
        return EXIT_STOPPED


def check_python(version: "tuple[int, ...]") -> None:
    """Check that Python's version is one that the pinned packages support."""
    if not OLDEST <= version < TOO_NEW:
        newest = f"3.{TOO_NEW[1] - 1}"
        raise SetupError(
            f"this is Python {version[0]}.{version[1]}. OneTrainer needs Python 3.{OLDEST[1]} to "
            f"{newest}. Install Python {newest} as well and run: python{newest} start-ui.py"
        )


def parse(arguments: "list[str]") -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="start-ui.py", description="Opens OneTrainer.")
    parser.add_argument("preset", nargs="?", help="a preset's name, or a config file")
    parser.add_argument("--setup-only", action="store_true", help="install only, open no window")
    parser.add_argument("--extra", action="append", default=[], help="also install this extra")
    return parser.parse_args(arguments)


def read_project() -> "dict[str, Any]":
    """Read the [project] table of pyproject.toml, which pins the packages."""
    import tomllib  # new in 3.11, which check_python requires

    with (PROJECT / "pyproject.toml").open("rb") as file:
        return dict(tomllib.load(file)["project"])


def required_digests(extras: "list[str]") -> "dict[str, str]":
    """Return a digest of the requirements of the program ("") and of each extra."""
    project = read_project()
    optional = project.get("optional-dependencies", {})
    for extra in extras:
        if extra not in optional:
            known = ", ".join(optional) or "none"
            raise SetupError(f"there is no extra {extra!r}. Available: {known}. Use one of these.")
    # Includes the folder, since the installed `onetrainer` command points into it.
    parts = [project.get(part) for part in ("dependencies", "scripts", "gui-scripts")]
    program = [*parts, CONSTRAINTS.read_text(encoding="utf-8"), str(PROJECT)]
    requirements = {"": program, **{extra: [program, optional[extra]] for extra in extras}}
    texts = {name: json.dumps(content).encode() for name, content in requirements.items()}
    return {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}


def is_current(extras: "list[str]") -> bool:
    """Return whether all requirements are installed for the present Python."""
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
        installed, interpreter = dict(stamp["installed"]), stamp["interpreter"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    is_same_python = PYTHON.exists() and interpreter == os.path.realpath(str(PYTHON))
    return is_same_python and required_digests(extras).items() <= installed.items()


def write_stamp(installed: "dict[str, str]") -> None:
    """Record what is installed, in one atomic write."""
    stamp = {"interpreter": os.path.realpath(str(PYTHON)), "installed": installed}
    STAMP.with_suffix(".part").write_text(json.dumps(stamp), encoding="utf-8")
    STAMP.with_suffix(".part").replace(STAMP)


def set_up(extras: "list[str]") -> None:
    """Install the requirements, continuing an interrupted setup."""
    if importlib.util.find_spec("ensurepip") is None:
        raise SetupError(
            "this Python has no ensurepip module. It is needed to create .venv. "
            "Install it (Debian, Ubuntu: sudo apt install python3-venv) and start again."
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that pip ends with us
    try:
        with locked():
            if not is_current(extras):  # another start may have finished it meanwhile
                install(extras)
    except OSError as error:
        if DISK_FULL.search(str(error)):
            raise SetupError(DISK_FULL_TEXT) from error
        raise SetupError(
            f"{error.filename or VENV} cannot be written ({error.strerror}). The setup writes to "
            f"{VENV}. Make it writable, or move this folder to a place that is."
        ) from error


@contextlib.contextmanager
def locked() -> "Iterator[None]":
    """Lock the folder against another setup; the system unlocks it when the process ends.

    Child processes inherit the lock: a pip that outlives a killed start-ui.py still holds it.
    """
    VENV.mkdir(exist_ok=True)
    with LOCK.open("w") as file:
        if not try_lock(file.fileno()):
            print("Another setup of this folder is running; waiting for it ...", flush=True)
            while not try_lock(file.fileno()):
                time.sleep(TICK)
        os.set_inheritable(file.fileno(), True)
        yield


def try_lock(descriptor: int) -> bool:
    """Try to acquire the lock and return whether it was acquired."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def install(extras: "list[str]") -> None:
    """Create or complete .venv and install the pinned packages into it."""
    check_space()
    write_stamp({})  # an older stamp is invalid until the end
    shutil.rmtree(str(DOWNLOADS), ignore_errors=True)
    print("Setting up OneTrainer. This is done once and takes some minutes.", flush=True)
    progress = Progress()
    try:
        if not has_working_pip():
            make_venv(progress)
        remove_half_installed()
        # torch first and alone, by its pin, before another package can ask for just any torch.
        torch = [pin for pin in read_project()["dependencies"] if re.match(r"torch\b", pin)]
        program = "-e .[{}]".format(",".join(extras)) if extras else "-e ."
        for what in (torch, program.split()):
            run([str(PYTHON), *PIP_INSTALL, *what], "looking up the pinned packages", progress)
        progress.show("done")
    finally:
        print(end="\n" if sys.stdout.isatty() else "", flush=True)
    shutil.rmtree(str(DOWNLOADS), ignore_errors=True)
    write_stamp(required_digests(extras))


def check_space() -> None:
    """Check that the disk can hold the large download."""
    if any(info for site in site_packages() for info in site.glob("torch-*.dist-info")):
        return
    has_nvidia = shutil.which("nvidia-smi") is not None or Path("/proc/driver/nvidia").exists()
    needed = (6 if has_nvidia else 3) * GB  # torch unpacked and pip's downloads
    free = shutil.disk_usage(str(PROJECT)).free
    if free < needed:
        raise SetupError(
            f"only {free / GB:.1f} GB are free on the disk of {PROJECT}. PyTorch and the rest need "
            f"{needed / GB:.0f} GB. Free some space, or move this folder to another disk."
        )


def has_working_pip() -> bool:
    """Return whether .venv has a working pip under a supported Python."""
    check = f"import sys, pip._internal.cli.main; assert {OLDEST} <= sys.version_info < {TOO_NEW}"
    try:
        command = [str(PYTHON), "-I", "-c", check]  # -I: nothing from the current folder
        answer = subprocess.run(command, capture_output=True, env=environment())
    except OSError:  # it does not exist or is not executable
        return False
    return answer.returncode == 0 and not any(i.name.startswith("pip-") for i in half_installed())


def make_venv(progress: "Progress") -> None:
    """Create .venv from scratch, keeping the open log and lock files."""
    for entry in set(VENV.iterdir()) - {LOG, LOCK}:
        is_folder = entry.is_dir() and not entry.is_symlink()
        shutil.rmtree(str(entry)) if is_folder else entry.unlink()
    run([sys.executable, "-m", "venv", str(VENV)], "creating .venv", progress)


def site_packages() -> "list[Path]":
    """Return the site-packages folders of .venv; an empty list if there is no .venv."""
    return [*VENV.glob("lib/python*/site-packages"), *VENV.glob("Lib/site-packages")]


def half_installed() -> "list[Path]":
    """Return the dist-info folders of incompletely installed packages."""
    every = (info for site in site_packages() for info in site.glob("*.dist-info"))
    return [info for info in every if not is_complete(info)]


def is_complete(info: Path) -> bool:
    """Return whether all files of a package exist with the sizes in its RECORD."""
    try:
        rows = csv.reader((info / "RECORD").read_text(encoding="utf-8").splitlines())
        sizes = {info.parent / name: int(size) for name, _, size in rows if size}
        is_whole = all(path.stat().st_size == size for path, size in sizes.items())
    except (OSError, ValueError, csv.Error):  # RECORD missing or invalid, or a file missing
        return False
    return is_whole and bool(sizes) and (info / "INSTALLER").exists()  # pip writes it last


def remove_half_installed() -> None:
    """Remove incompletely installed packages, which pip would take for installed."""
    for info in half_installed():
        shutil.rmtree(str(info))
    for site in site_packages():
        for stash in site.glob("~*"):  # pip's backups from before it was killed
            shutil.rmtree(str(stash), ignore_errors=True)


def run(command: "list[str]", label: str, progress: "Progress") -> None:
    """Run one setup step with its output in the log. Raises SetupError if it fails."""
    DOWNLOADS.mkdir(exist_ok=True)
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(DOWNLOADS))
    with LOG.open("ab") as sink, LOG.open("rb") as source:
        sink.write(f"\n{time.ctime()}: {' '.join(command)}\n".encode())
        sink.flush()
        source.seek(0, os.SEEK_END)
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=str(PROJECT),
            env={**environment(), **temporary, **PIP_SETTINGS},
            close_fds=False,  # it inherits the lock, see locked()
        )
        output = ""
        try:
            while child.poll() is None:
                output += source.read().decode(errors="replace")
                progress.show(stage(output) or label)
                time.sleep(TICK)
        finally:
            child.terminate()  # does nothing if it has ended
            child.wait()
        output += source.read().decode(errors="replace")
    if child.returncode != 0:
        raise explain_failure(child.returncode, output)


def environment() -> "dict[str, str]":
    """Return the environment without variables that would let .venv import other packages."""
    outside = ("PYTHONPATH", "PYTHONHOME")
    return {name: value for name, value in os.environ.items() if name not in outside}


def stage(output: str) -> str:
    """Return pip's current action from its output; "" if unknown."""
    for line in reversed(output.splitlines()):
        fetched = re.match(r"\s*(?:Downloading|Using cached)\s+(\S+?)-(\d\S*?)-\S*(.*)", line)
        if fetched:
            return "downloading {} {}{}".format(*fetched.groups())
        if line.startswith("Collecting "):
            return "looking up " + line.split()[1]
        if line.startswith("Installing collected packages:"):
            return f"installing {line.count(',') + 1} packages"
        if "Retrying" in line:
            return "no answer from the network, trying again"
    return ""


class Progress:
    """A progress line, rewritten in place in a terminal; elsewhere one line per change."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.last_text = ""

    def show(self, what: str) -> None:
        """Show the current action, the elapsed time and the amount downloaded so far."""
        text = "  {}:{:02d}  ".format(*divmod(int(time.monotonic() - self.begin), 60)) + what
        if sys.stdout.isatty():
            with contextlib.suppress(OSError):  # pip may delete a file after it was listed
                downloaded = sum(wheel.stat().st_size for wheel in DOWNLOADS.glob("*/*.whl"))
                text += f", {downloaded / 1e6:.0f} MB" if what.startswith("downloading") else ""
            width = shutil.get_terminal_size().columns - 1
            print("\r" + text[:width].ljust(width), end="", flush=True)
        elif what != self.last_text:
            print(text, flush=True)
        self.last_text = what


def explain_failure(code: int, output: str) -> SetupError:
    """Return the error for a failed setup step."""
    if DISK_FULL.search(output):
        return SetupError(DISK_FULL_TEXT)
    if NO_NETWORK.search(output):
        return SetupError(
            "the package index cannot be reached. The setup needs the internet once. Check the "
            f"connection or proxy and start again to continue. (Log: {LOG})"
        )
    errors = [line[7:] for line in output.splitlines() if line.startswith("ERROR: ")]
    reason = errors[-1].rstrip(".") if errors else f"exit code {code}"
    return SetupError(
        f"the installation failed: {reason}. All pinned packages are needed. "
        f"See the end of {LOG}, then start again to continue."
    )


def start(preset: "str | None") -> int:
    """Open the window; if none can open, train the preset or the demo in the terminal."""
    if preset is not None and Path(preset).exists():  # relative to the caller's folder
        preset = str(Path(preset).resolve())
    os.chdir(str(PROJECT))
    obstacle = why_no_window()
    if not obstacle:
        return become(["-m", "onetrainer", "window", preset or "--demo"])
    print(f"{obstacle} Training {preset or 'the demo'} in this terminal instead.", flush=True)
    if preset is None:  # completes an existing demo without changing it
        code = subprocess.call([str(PYTHON), "-m", "onetrainer", "demo", "demo"], env=environment())
        if code != 0:
            return code
    return become(["-m", "onetrainer", "train", preset or "demo/demo.json"])


def why_no_window() -> str:
    """Return a sentence on why no window can open; "" if one can."""
    is_x11 = sys.platform not in ("win32", "darwin")
    if is_x11 and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return "There is no display (DISPLAY is empty)."
    command = [str(PYTHON), "-c", "import tkinter; tkinter.Tk().destroy()"]
    try:
        probe = subprocess.run(command, capture_output=True, env=environment(), timeout=10)
    except subprocess.TimeoutExpired:
        return f"The display {os.environ.get('DISPLAY', '')} does not answer."
    if probe.returncode == 0:
        return ""
    reason = (probe.stderr.decode(errors="replace").strip().splitlines() or ["unknown reason"])[-1]
    if "No module named" in reason:
        return "This Python has no tkinter (Debian: python3-tk, Fedora: python3-tkinter)."
    return f"No window can be opened ({reason.replace('_tkinter.TclError: ', '')})."


def become(arguments: "list[str]") -> int:
    """Replace this process with .venv's Python."""
    command = [str(PYTHON), *arguments]
    if sys.platform != "win32":  # where exec would return to the shell at once
        os.execve(command[0], command, environment())
    return subprocess.call(command, env=environment())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
