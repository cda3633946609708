"""Run folders as a stranger may send them: whatever is in one, nothing outside of it is touched.

Each is a sound run with something planted in it by a seed, over which the program's commands go.
"""

import hashlib
import os
import random
import resource
import shutil
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import TimeoutExpired
from unittest.mock import patch

import psutil

from modules import worker
from onetrainer.__main__ import main
from onetrainer.errors import EXIT_DONE, EXIT_STOPPED, EXIT_USER
from onetrainer.jobs import job
from onetrainer.run import client
from onetrainer.run.run_folder import RunFolder
from tests import runs
from tests.faults.cases import new_run
from tests.faults.result import Result
from tests.faults.stranger_plants import KINDS, Plant, change_settings
from tests.forked import Forked, Forking

SECRET = "what a stranger is not to read"
MOST_SECONDS = 60.0
MOST_BYTES = 256 << 20
"""Of one file that is written, and of all that is written together."""
_PRECIOUS = (
    *("key", "notes.txt", "model.safetensors", "step-000099.json"),
    *("photos/one.png", "photos/state.json"),
)
_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "show": ("show", "RUN"),
    "show --json": ("show", "--json", "RUN"),
    "check": ("check", "RUN"),
    "check-data": ("check-data", "RUN"),
    "plan": ("plan", "RUN"),
    "diff": ("diff", "RUN", "CONFIG"),
    "cache": ("cache", "RUN"),
    "cache --prune": ("cache", "--prune", "RUN"),
    "report": ("report", "--with-samples", "RUN"),
    "convert": ("convert", "RUN", "OUT"),
    "stop": ("stop", "RUN"),
    "queue add": ("queue", "add", "--no-forecast", "RUN"),
    "queue": ("queue", "list"),
    "queue serve": ("queue", "serve"),
    "resume": ("resume", "RUN"),
    "fork": ("fork", "RUN"),
    "worker": ("worker", "RUN"),
}
_TRAINS = ("resume", "fork", "worker", "queue serve")
_SELDOM = 0.5
_COMMANDS_EACH = 3


@dataclass(frozen=True)
class Entry:
    """What is at a path, without following a link."""

    kind: str
    content: str


class StrangersRuns:
    """Copies of one run in a folder of its own, beside files that are somebody's own."""

    def __init__(self, place: Path) -> None:
        """Train the run that is sent; it has two steps left."""
        self._place = place
        project = place / "project"
        self._config = runs.write_project(project)
        self._sent = new_run(self._config, "lora-accumulation")
        with patch.object(client, "subprocess", Forking(worker.main)):
            assert runs.finish(self._sent) == EXIT_DONE, self._sent.log.read_text()[-2000:]
        self._forget_the_end()
        self.precious = place / "precious"
        (self.precious / "photos").mkdir(parents=True)
        for name in _PRECIOUS:
            (self.precious / name).write_text(f"{SECRET}: {name}\n")
        self._incoming, self._user = place / "incoming", place / "user"

    def campaign(
        self, times: int, seed: int, kinds: Sequence[str] = tuple(KINDS)
    ) -> Iterator[Result]:
        """Plant something so many times, each time of the next kind, and run commands over it."""
        for number in range(times):
            draw = random.Random(f"{seed} strangers {number}")
            kind = kinds[number % len(kinds)]
            folder = self._receive()
            plant = Plant(folder, self.precious, draw)
            said = KINDS[kind](plant)
            for command in self._commands(draw):
                problems = tuple(self._after(command, folder, may_be_known=plant.is_known))
                yield Result("strangers", command, f"{number} {kind}: {said}", "", problems)

    def attempt(self, plant: Callable[[RunFolder, Path], object], commands: str) -> list[str]:
        """Plant one thing into a new copy, run commands over it, and return what is wrong then."""
        folder = self._receive()
        plant(folder, self.precious)
        problems = [one for name in commands.split(", ") for one in self._after(name, folder)]
        return [*problems, *([] if os.path.lexists(folder.config) else ["the run is gone"])]

    def _commands(self, draw: random.Random) -> list[str]:
        quick = [name for name in _COMMANDS if name not in _TRAINS]
        chosen = draw.sample(quick, _COMMANDS_EACH)
        return [*chosen, draw.choice(_TRAINS)] if draw.random() < _SELDOM else chosen

    def _forget_the_end(self) -> None:
        """Make it a run that was paused after its second last checkpoint."""
        *_, last = self._sent.complete_checkpoints()
        shutil.rmtree(last[1])

    def _receive(self) -> RunFolder:
        for folder in (self._incoming, self._user):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        target = self._incoming / "runs" / self._sent.name
        shutil.copytree(self._sent.path, target)
        shutil.copytree(self._sent.path.parent / "cache", target.parent / "cache")
        received = RunFolder(target)
        change_settings(received, {("output", "folder"): str(target.parent)})
        return received

    def _after(
        self, command: str, folder: RunFolder, *, may_be_known: bool = False
    ) -> Iterator[str]:
        """Run a command; yield what is wrong after it. may_be_known: The secret is in the run."""
        before, inside = self._outside(), {*_tree(self._incoming)}
        code, printed = self._run(command, folder)
        if code is None:
            yield f"no answer in time: {printed[-300:]}"
        elif code not in (EXIT_DONE, EXIT_USER, EXIT_STOPPED):
            yield f"exit code {code}: {printed[-600:]}"
        elif code == EXIT_USER and not printed.strip():
            yield "no message"
        if "Traceback" in printed:
            yield f"a traceback: {printed[-600:]}"
        after = self._outside()
        for path in sorted(before.keys() | after.keys()):
            if before.get(path) != after.get(path):
                yield f"{path}: was {before.get(path)}, is {after.get(path)}"
        made = {path: one for path, one in _tree(self._incoming).items() if path not in inside}
        if not may_be_known and (
            SECRET in printed or any(_tells(self._incoming / p) for p in made)
        ):
            yield "it tells the secret"
        if _bytes_of(self._place) > MOST_BYTES:
            yield "it fills the disk"

    def _outside(self) -> dict[str, Entry]:
        """All but what is received, and what this user's folder keeps."""
        beside = (self._incoming.name, self._user.name, "printed")
        found = _tree(self._place).items()
        return {path: each for path, each in found if path.split("/")[0] not in beside}

    def _run(self, command: str, folder: RunFolder) -> tuple[int | None, str]:
        """The exit code of a command, None if it does not end, and all that it printed."""
        words = {
            "RUN": str(folder.path),
            "CONFIG": str(self._config),
            "OUT": str(self._incoming / "out.safetensors"),
        }
        arguments = [words.get(word, word) for word in _COMMANDS[command]]
        path = self._place / "printed"
        with path.open("w+b") as printed:
            process = Forked(
                partial(_limited, self._incoming),
                arguments,
                printed,
                {"XDG_CONFIG_HOME": str(self._user)},
            )
            code: int | None = None
            try:
                code = process.wait(MOST_SECONDS)
            except TimeoutExpired:
                _kill_tree(process.pid)
                process.wait()
        return code, path.read_text(errors="replace")


def _limited(current: Path, arguments: list[str]) -> int:
    """Run a command in a process that can write no large file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, resource.RLIM_INFINITY))
    os.chdir(current)
    forking = Forking(worker.main)
    with patch.object(client, "subprocess", forking), patch.object(job, "subprocess", forking):
        if arguments[0] == "worker":
            return worker.main(arguments[1:])
        return main(arguments)


def _kill_tree(process: int) -> None:
    with suppress(psutil.NoSuchProcess):
        found = psutil.Process(process)
        for each in (*found.children(recursive=True), found):
            with suppress(psutil.NoSuchProcess):
                each.kill()


def _tree(place: Path) -> dict[str, Entry]:
    """All below a folder by its path."""
    found = {}
    for folder, folders, files in os.walk(place):
        for name in (*folders, *files):
            path = Path(folder, name)
            found[path.relative_to(place).as_posix()] = _entry(path)
    return found


def _entry(path: Path) -> Entry:
    status = path.lstat()
    kind = stat.filemode(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return Entry(kind, str(path.readlink()))
    if not stat.S_ISREG(status.st_mode):
        return Entry(kind, "")
    return Entry(
        kind, f"{status.st_size} {status.st_mtime_ns}" if _is_large(status) else _digest(path)
    )


def _is_large(status: os.stat_result) -> bool:
    return status.st_size > MOST_BYTES


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _tells(path: Path) -> bool:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or _is_large(status):
        return False
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return any(SECRET.encode() in archive.read(name) for name in archive.namelist())
    return SECRET.encode() in path.read_bytes()


def _bytes_of(place: Path) -> int:
    """The bytes that all in a folder takes on the disk."""
    return sum(
        Path(folder, name).lstat().st_blocks * 512
        for folder, _, names in os.walk(place)
        for name in names
    )
