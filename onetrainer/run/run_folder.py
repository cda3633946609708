"""One run's folder: its paths, how files in it are written, and who works in it."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import IO, Any

from onetrainer.errors import UserError

STATE_FILE = "state.json"
_MOST_RUNS = 100_000
_LOCK_TRIES = 10
_LOCK_PAUSE = 0.03


class RunFolder:
    """The paths of a run. The folder is the truth about it: nothing else is remembered."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.config = self.path / "config.json"
        self.events = self.path / "events.jsonl"
        self.commands = self.path / "commands.jsonl"
        self.log = self.path / "worker.log"
        self.samples = self.path / "samples"
        self.validation = self.path / "validation"
        self.rewards = self.path / "rewards"
        self.checkpoints = self.path / "checkpoints"
        self.output = self.path / "output"
        self.start_files = self.path / "start"
        self.lock = self.path / "lock"

    @property
    def name(self) -> str:
        """The run's name: that of its folder."""
        return self.path.name

    def checkpoint(self, step: int) -> Path:
        """Where the checkpoint of a step is, or would be."""
        return self.checkpoints / f"step-{step:06d}"

    def complete_checkpoints(self) -> list[tuple[int, Path]]:
        """The checkpoints that can be resumed from, oldest first: those with a state file."""
        found = []
        for path in self.checkpoints.glob("step-*"):
            number = path.name.removeprefix("step-")
            if number.isdecimal() and (path / STATE_FILE).is_file():
                found.append((int(number), path))
        return sorted(found)

    def is_busy(self) -> bool:
        """Whether a worker is at work in this folder now."""
        if not self.lock.exists():
            return False
        try:
            with self.lock.open("rb") as handle:
                if not _try_lock(handle, shared=True):
                    return True
                _unlock(handle)
        except OSError:
            return False
        return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other workers out of the folder; the system lets go when the process ends.

        Raises UserError if another worker has the folder.
        """
        try:
            self.lock.touch()
        except OSError as error:
            raise cannot_write(self.path, error) from error
        with self.lock.open("r+b") as handle:
            if not _try_lock_patiently(handle):
                raise busy(self.path)
            try:
                # After the first byte, which Windows lets nobody else read while it is locked.
                handle.seek(1)
                handle.write(str(os.getpid()).encode())
                handle.truncate()
                handle.flush()
                handle.seek(0)
                yield
            finally:
                _unlock(handle)

    def worker_pid(self) -> int | None:
        """The process at work in this folder; None if there is none."""
        if not self.is_busy():
            return None
        with self.lock.open("rb") as handle:
            handle.seek(1)
            text = handle.read().decode(errors="replace")
        return int(text) if text.isdecimal() else None


def create_run(parent: Path, *, name: str, config: dict[str, Any]) -> RunFolder:
    """A new run folder NAME-NNN under parent, holding the resolved config."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, _MOST_RUNS):
            path = parent / f"{name}-{number:03d}"
            if path.exists():
                continue
            return fill_run(path, config=config)
    except OSError as error:
        raise cannot_write(parent, error) from error
    raise UserError(f"{parent}: every run number is taken", "", "Choose another runs folder.")


def fill_run(path: Path, *, config: dict[str, Any]) -> RunFolder:
    """Makes a run folder at the given path and writes the resolved config into it.

    Raises UserError if the folder already holds something.
    """
    folder = RunFolder(path)
    made: list[Path] = []
    try:
        if not path.exists():
            path.mkdir(parents=True)
            made.append(path)
        if any(path.iterdir()):
            raise UserError(
                f"{path}: this folder is not empty",
                "Expected a new folder for the run",
                "Choose another one, or continue the run in it with: onetrainer resume",
            )
        for room in (folder.samples, folder.checkpoints, folder.output):
            room.mkdir()
            made.append(room)
        write_atomic(folder.config, (json.dumps(config, indent=2) + "\n").encode())
    except OSError as error:
        for room in reversed(made):
            with suppress(OSError):
                room.rmdir()
        raise cannot_write(path, error) from error
    return folder


def open_run(path: Path) -> RunFolder:
    """The run folder at a path. Raises UserError if there is none."""
    folder = RunFolder(path)
    if not folder.config.is_file():
        what = "there is no such folder" if not path.is_dir() else "no config.json in this folder"
        raise UserError(
            f"{path}: {what}", "Expected the folder of a run", "Check the path; runs are in runs/."
        )
    return folder


def write_atomic(path: Path, content: bytes) -> None:
    """Writes a file completely or not at all, and on the disk before it returns."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise


def sync_folder(path: Path) -> None:
    """Puts a folder's entries (renames, new files) on the disk; a no-op on Windows."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def busy(path: Path) -> UserError:
    """The message for a run folder that a worker is at work in."""
    return UserError(
        f"{path}: another process is training in this run folder",
        "One run has one worker at a time",
        "Wait until it ends, or stop it first.",
    )


def cannot_write(path: Path, error: OSError) -> UserError:
    """The message for a place that cannot be written to."""
    reason = error.strerror or str(error)
    return UserError(
        f"{path}: cannot write here ({reason.lower()})",
        "Expected a folder on a disk with free space that you may write to",
        "Free some space or choose another folder (output.folder).",
    )


def _try_lock_patiently(handle: IO[bytes]) -> bool:
    # A window that asks `is_busy` holds the lock for a moment; that is no worker.
    for _ in range(_LOCK_TRIES):
        if _try_lock(handle):
            return True
        sleep(_LOCK_PAUSE)
    return False


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: IO[bytes], *, shared: bool = False) -> bool:
        try:
            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(handle: IO[bytes]) -> None:
        handle.seek(0)
        msvcrt.locking(handle.fileno(), msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try_lock(handle: IO[bytes], *, shared: bool = False) -> bool:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _unlock(handle: IO[bytes]) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)
