"""A run as the window and the terminal see it: start, follow, command, and learn of its end."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from onetrainer import ROOT
from onetrainer.errors import EXIT_DONE, EXIT_STOPPED, EXIT_USER
from onetrainer.run.commands import Command
from onetrainer.run.event_log import EventReader, News
from onetrainer.run.events import ENDINGS
from onetrainer.run.run_folder import RunFolder, busy, cannot_write
from onetrainer.run.wire import encode_command

WORKER = "modules.worker"
_LOG_TAIL_BYTES = 16 * 1024
_LOG_TAIL_LINES = 20
_NOTE_TIMEOUT = 5.0
# Windows knows no SIGKILL; there every signal of os.kill but two ends the process at once.
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


@dataclass(frozen=True)
class Death:
    """How a worker ended that did not say so itself.

    what: in words. code: the process' exit code, negative for a signal, None where another
    window had started it. log: the last lines of its log.
    """

    what: str
    code: int | None
    log: list[str]


class Run:
    """A run that was started here or elsewhere.

    Everything is read from the run folder, so a window that was opened later, or again, sees just
    what the first one saw; the process is only asked whether it lives.
    """

    def __init__(
        self,
        folder: RunFolder,
        process: subprocess.Popen[bytes] | None = None,
        *,
        not_file: int = 0,
    ) -> None:
        self.folder = folder
        self._process = process
        # A new worker replaces the events of the one before, whose last words are not its own.
        self._reader = EventReader(folder.events, not_file=not_file)
        self._has_ended = False

    def poll(self) -> News:
        """What has happened since the last call; never waits."""
        news = self._reader.read()
        if news.restarted:
            self._has_ended = False
        for event in news.events:
            self._has_ended = isinstance(event, ENDINGS)
        return news

    def send(self, command: Command) -> None:
        """Asks the worker for something; it is obeyed between two steps."""
        try:
            with self.folder.commands.open("a", encoding="utf-8") as handle:
                handle.write(encode_command(command))
        except OSError as error:
            raise cannot_write(self.folder.commands, error) from error

    @property
    def is_alive(self) -> bool:
        """Whether the worker runs."""
        if self._process is not None:
            return self._process.poll() is None
        return self.folder.is_busy()

    @property
    def pid(self) -> int | None:
        """The worker's process; None if none is at work."""
        if self._process is not None:
            return self._process.pid
        return self.folder.worker_pid()

    @property
    def exit_code(self) -> int | None:
        """The worker's exit code; None while it runs, or where it was started elsewhere."""
        return self._process.poll() if self._process is not None else None

    def kill(self) -> None:
        """Ends the worker at once; the run can be resumed from its last checkpoint."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(_NOTE_TIMEOUT)
        elif self._process is None and (pid := self.folder.worker_pid()) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, _KILL)

    def wait(self, timeout: float | None = None) -> int | None:
        """Waits until a worker that was started here has ended; its exit code."""
        return self._process.wait(timeout) if self._process is not None else None

    def death(self) -> Death | None:
        """How the worker died; None while it lives, or when its last event told of its end.

        To be asked only after `poll` has returned no more news.
        """
        if self.is_alive or self._has_ended:
            return None
        code = self.exit_code
        return Death(in_words(code), code, log_tail(self.folder.log))


def start(folder: RunFolder) -> Run:
    """Starts a worker in the run folder: from its newest checkpoint, or from the beginning.

    The worker has a session of its own: neither Ctrl+C in the terminal nor the window's end
    reaches it. Raises UserError if a worker is at work there already.
    """
    if folder.is_busy():
        raise busy(folder.path)
    try:
        before = folder.events.stat().st_ino if folder.events.exists() else 0
        # What was asked of an earlier worker is not asked of this one.
        folder.commands.write_bytes(b"")
        with folder.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", WORKER, str(folder.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )
    except OSError as error:
        raise cannot_write(folder.path, error) from error
    return Run(folder, process, not_file=before)


def attach(folder: RunFolder) -> Run:
    """Follows a run that something else has started, or that has ended."""
    return Run(folder)


def log_tail(path: Path) -> list[str]:
    """The last lines of a log; none if there is no log."""
    try:
        with path.open("rb") as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(0, handle.tell() - _LOG_TAIL_BYTES))
            lines = handle.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return [line for line in lines if line.strip()][-_LOG_TAIL_LINES:]


def environment() -> dict[str, str]:
    """Ours, with this program's modules to be found from any folder."""
    root = str(ROOT)
    inherited = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join([root, inherited]) if inherited else root
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def in_words(code: int | None) -> str:
    """How a worker ended that did not say so itself, by its exit code."""
    if code is None:
        return "The worker ended without a word."
    if code in (EXIT_DONE, EXIT_STOPPED, EXIT_USER) or code > 0:
        return f"The worker ended with exit code {code} and without a word."
    name = signal.Signals(-code).name if -code in signal.valid_signals() else str(-code)
    if name == "SIGKILL":
        return (
            "The worker was killed (SIGKILL). If nobody did that, the computer ran out of memory."
        )
    if name in ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL"):
        return f"The worker crashed ({name}) in a library or a driver."
    return f"The worker was ended from outside ({name})."
