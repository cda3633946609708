#!/usr/bin/env python3
"""Sets OneTrainer up in `.venv` beside this file, then opens its window with the demo loaded.

Standard library only, and only syntax that Python 3.6 can read (annotations that it cannot are
quoted), so that an old Python gets a message and no traceback.
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
DISK_FULL_TEXT = f"the disk of {PROJECT} is full. Up to 6 GB are needed. Free some and start again."
PIP_INSTALL = ["-m", "pip", "install", "--no-input", "--progress-bar", "off"]
PIP_SETTINGS = {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUNBUFFERED": "1"}
TICK = 0.25  # seconds between two looks at a running step
DISK_FULL = re.compile(r"No space left on device|Errno 28\b|Disk quota exceeded|WinError 112\b")
NO_NETWORK = re.compile(
    r"NewConnection|NameResolution|Failed to establish|getaddrinfo|Temporary failure in name"
    r"|Network is unreachable|ConnectTimeout|ReadTimeout|Max retries exceeded|ProxyError"
    r"|SSLError|ConnectionReset|Connection refused|IncompleteRead|Connection broken"
)


class SetupError(Exception):
    """What is wrong, what was expected, what to do: for a person, in one line."""


def main(arguments: "list[str]") -> int:
    """Sets up what is missing, then becomes the window, or a training where none can open."""
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
        print("start-ui.py: interrupted. Start it again, it goes on from here.", file=sys.stderr)
        return EXIT_STOPPED


def check_python(version: "tuple[int, ...]") -> None:
    """Refuses a Python that the pinned set has no builds for."""
    if not OLDEST <= version < TOO_NEW:
        newest = f"3.{TOO_NEW[1] - 1}"
        raise SetupError(
            f"this is Python {version[0]}.{version[1]}. OneTrainer needs Python 3.{OLDEST[1]} to "
            f"{newest}. Install Python {newest} beside it and run: python{newest} start-ui.py"
        )


def parse(arguments: "list[str]") -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="start-ui.py", description="Opens OneTrainer.")
    parser.add_argument("preset", nargs="?", help="a preset's name, or a config file")
    parser.add_argument("--setup-only", action="store_true", help="install, and open nothing")
    parser.add_argument("--extra", action="append", default=[], help="also install what this needs")
    return parser.parse_args(arguments)


def read_project() -> "dict[str, Any]":
    """The [project] table of pyproject.toml, the one place of the pins."""
    import tomllib  # new in 3.11, and check_python has been here

    with (PROJECT / "pyproject.toml").open("rb") as file:
        return dict(tomllib.load(file)["project"])


def wanted(extras: "list[str]") -> "dict[str, str]":
    """What has to be installed: a digest for the program ("") and for each extra."""
    project = read_project()
    optional = project.get("optional-dependencies", {})
    for extra in extras:
        if extra not in optional:
            known = ", ".join(optional) or "none"
            raise SetupError(f"no extra is called {extra!r}. There are: {known}. Use one of those.")
    # The folder belongs to it, as the installed `onetrainer` command points into it.
    program = [project["dependencies"], project.get("scripts"), str(PROJECT)]
    parts = {"": program, **{extra: [program, optional[extra]] for extra in extras}}
    texts = {name: json.dumps(part).encode() for name, part in parts.items()}
    return {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}


def is_current(extras: "list[str]") -> bool:
    """Whether all that is wanted has been installed, for the Python that is there now."""
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
        installed, interpreter = dict(stamp["installed"]), stamp["interpreter"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    is_same_python = PYTHON.exists() and interpreter == os.path.realpath(str(PYTHON))
    return is_same_python and wanted(extras).items() <= installed.items()


def write_stamp(installed: "dict[str, str]") -> None:
    """Notes what is installed, all at once."""
    stamp = {"interpreter": os.path.realpath(str(PYTHON)), "installed": installed}
    STAMP.with_suffix(".part").write_text(json.dumps(stamp), encoding="utf-8")
    STAMP.with_suffix(".part").replace(STAMP)


def set_up(extras: "list[str]") -> None:
    """Installs what is wanted; goes on from wherever an earlier set-up was cut off."""
    if importlib.util.find_spec("ensurepip") is None:
        raise SetupError(
            "this Python has no ensurepip module. It is needed to make .venv. "
            "Install it (Debian, Ubuntu: sudo apt install python3-venv) and start again."
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that pip ends with us
    try:
        with locked():
            if not is_current(extras):  # another start may have done it meanwhile
                install(extras)
    except OSError as error:
        if DISK_FULL.search(str(error)):
            raise SetupError(DISK_FULL_TEXT) from error
        raise SetupError(
            f"{error.filename or VENV} cannot be written ({error.strerror}). Setting up writes to "
            f"{VENV}. Get the right to write there, or move this folder to where you have it."
        ) from error


@contextlib.contextmanager
def locked() -> "Iterator[None]":
    """Keeps two set-ups of one folder apart; the system frees the lock however we end.

    The steps inherit it: a pip that outlives its killed start-ui.py still keeps the next one out.
    """
    VENV.mkdir(exist_ok=True)
    with LOCK.open("w") as file:
        if not try_lock(file.fileno()):
            print("Another set-up of this folder is running; waiting for it ...", flush=True)
            while not try_lock(file.fileno()):
                time.sleep(TICK)
        os.set_inheritable(file.fileno(), True)
        yield


def try_lock(descriptor: int) -> bool:
    """Whether the lock is ours now."""
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
    """Makes .venv whole and installs the pinned set into it."""
    check_space()
    write_stamp({})  # from here until the end nobody may believe an older stamp
    shutil.rmtree(str(DOWNLOADS), ignore_errors=True)
    print("Setting OneTrainer up. This is done once and takes some minutes.", flush=True)
    progress = Progress()
    try:
        if not has_working_pip():
            make_venv(progress)
        forget_half_installed()
        # torch first and alone, by its pin, before another package can ask for just any torch.
        torch = [pin for pin in read_project()["dependencies"] if re.match(r"torch\b", pin)]
        program = "-e .[{}]".format(",".join(extras)) if extras else "-e ."
        for what in (torch, program.split()):
            run([str(PYTHON), *PIP_INSTALL, *what], "looking the pinned packages up", progress)
        progress.show("set up")
    finally:
        print(end="\n" if sys.stdout.isatty() else "", flush=True)
    shutil.rmtree(str(DOWNLOADS), ignore_errors=True)
    write_stamp(wanted(extras))


def check_space() -> None:
    """Refuses to begin the large download on a disk that cannot hold it."""
    if any(info for site in site_packages() for info in site.glob("torch-*.dist-info")):
        return
    has_nvidia = shutil.which("nvidia-smi") is not None or Path("/proc/driver/nvidia").exists()
    needed = (6 if has_nvidia else 3) * GB  # torch unpacked, and pip's downloads beside it
    free = shutil.disk_usage(str(PROJECT)).free
    if free < needed:
        raise SetupError(
            f"{free / GB:.1f} GB are free on the disk of {PROJECT}. PyTorch and the rest need "
            f"{needed / GB:.0f} GB. Free some space, or move this folder to another disk."
        )


def has_working_pip() -> bool:
    """Whether .venv is whole, down to a pip that runs under a Python we support."""
    check = f"import sys, pip._internal.cli.main; assert {OLDEST} <= sys.version_info < {TOO_NEW}"
    try:
        answer = subprocess.run([str(PYTHON), "-c", check], capture_output=True, env=environment())
    except OSError:  # there is none, or it is not a program
        return False
    return answer.returncode == 0 and not any(i.name.startswith("pip-") for i in half_installed())


def make_venv(progress: "Progress") -> None:
    """Makes .venv anew. The log and the lock stay: we write the one and hold the other."""
    for entry in set(VENV.iterdir()) - {LOG, LOCK}:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(str(entry))
        else:
            entry.unlink()
    run([sys.executable, "-m", "venv", str(VENV)], "making .venv", progress)


def site_packages() -> "list[Path]":
    """Where .venv keeps packages; empty as long as there is none."""
    return [*VENV.glob("lib/python*/site-packages"), *VENV.glob("Lib/site-packages")]


def half_installed() -> "list[Path]":
    """The dist-info folders of packages whose installation was cut off."""
    every = (info for site in site_packages() for info in site.glob("*.dist-info"))
    return [info for info in every if not is_complete(info)]


def is_complete(info: Path) -> bool:
    """Whether a package's files are all there with the sizes that its RECORD gives."""
    try:
        rows = csv.reader((info / "RECORD").read_text(encoding="utf-8").splitlines())
        sizes = {info.parent / name: int(size) for name, _, size in rows if size}
        is_whole = all(path.stat().st_size == size for path, size in sizes.items())
    except (OSError, ValueError, csv.Error):  # no RECORD, no such file, or rubbish in it
        return False
    return is_whole and bool(sizes) and (info / "INSTALLER").exists()  # pip writes it last


def forget_half_installed() -> None:
    """Lets pip install cut-off packages again, which it would take for installed."""
    for info in half_installed():
        shutil.rmtree(str(info))
    for site in site_packages():
        for stash in site.glob("~*"):  # what pip had put aside when it was killed
            shutil.rmtree(str(stash), ignore_errors=True)


def run(command: "list[str]", label: str, progress: "Progress") -> None:
    """Runs one step, its output going to the log. Raises SetupError when it fails."""
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
            child.terminate()  # no more than a formality where it has ended
            child.wait()
        output += source.read().decode(errors="replace")
    if child.returncode != 0:
        raise explain_failure(child.returncode, output)


def environment() -> "dict[str, str]":
    """The environment without what would let .venv see packages outside itself."""
    outside = ("PYTHONPATH", "PYTHONHOME")
    return {name: value for name, value in os.environ.items() if name not in outside}


def stage(output: str) -> str:
    """What pip is doing, from the last telling line it wrote; "" before any."""
    for line in reversed(output.splitlines()):
        fetched = re.match(r"\s*(?:Downloading|Using cached)\s+(\S+?)-(\d\S*?)-\S*(.*)", line)
        if fetched:
            return "fetching {} {}{}".format(*fetched.groups())
        if line.startswith("Collecting "):
            return "looking up " + line.split()[1]
        if line.startswith("Installing collected packages:"):
            return f"unpacking {line.count(',') + 1} packages"
        if "Retrying" in line:
            return "the network does not answer, trying again"
    return ""


class Progress:
    """One line that is written anew in a terminal; elsewhere a line whenever the work changes."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.shown = ""

    def show(self, what: str) -> None:
        """Says what is being done, for how long, and how much has come in so far."""
        text = "  {}:{:02d}  ".format(*divmod(int(time.monotonic() - self.begin), 60)) + what
        if sys.stdout.isatty():
            with contextlib.suppress(OSError):  # pip clears up between listing and looking
                fetched = sum(wheel.stat().st_size for wheel in DOWNLOADS.glob("*/*.whl"))
                text += f", {fetched / 1e6:.0f} MB so far" if what.startswith("fetching") else ""
            room = shutil.get_terminal_size().columns - 1
            print("\r" + text[:room].ljust(room), end="", flush=True)
        elif what != self.shown:
            print(text, flush=True)
        self.shown = what


def explain_failure(code: int, output: str) -> SetupError:
    """A failed step in words."""
    if DISK_FULL.search(output):
        return SetupError(DISK_FULL_TEXT)
    if NO_NETWORK.search(output):
        return SetupError(
            "the package index cannot be reached. Setting up needs the internet once. Check the "
            f"connection or proxy and start again, it goes on from here. (Log: {LOG})"
        )
    errors = [line[7:] for line in output.splitlines() if line.startswith("ERROR: ")]
    reason = errors[-1].rstrip(".") if errors else f"exit code {code}"
    return SetupError(
        f"installing stopped: {reason}. All pinned packages are needed. "
        f"See the end of {LOG}, then start again, it goes on from here."
    )


def start(preset: "str | None") -> int:
    """Becomes the window; where none can open, trains the preset or the demo in the terminal."""
    if preset is not None and Path(preset).exists():  # seen from where it was written
        preset = str(Path(preset).resolve())
    os.chdir(str(PROJECT))
    obstacle = why_no_window()
    if not obstacle:
        return become(["-m", "ui", preset or "--demo"])
    print(f"{obstacle} Training {preset or 'the demo'} in this terminal instead.", flush=True)
    if preset is None:  # a demo that is there already is completed, not changed
        code = subprocess.call([str(PYTHON), "-m", "onetrainer", "demo", "demo"], env=environment())
        if code != 0:
            return code
    return become(["-m", "onetrainer", "train", preset or "demo/demo.json"])


def why_no_window() -> str:
    """A sentence saying why no window can open; "" when one can."""
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
    reason = (probe.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"])[-1]
    if "No module named" in reason:
        return "This Python has no tkinter (Debian: python3-tk, Fedora: python3-tkinter)."
    return f"No window can be opened ({reason.replace('_tkinter.TclError: ', '')})."


def become(arguments: "list[str]") -> int:
    """Replaces this process by .venv's Python."""
    command = [str(PYTHON), *arguments]
    if sys.platform != "win32":  # where exec would return to the shell at once
        os.execve(command[0], command, environment())
    return subprocess.call(command, env=environment())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
