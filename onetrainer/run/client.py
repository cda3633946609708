"""Control of a run from the window and the terminal: start, follow, send commands, detect exits."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from onetrainer import ROOT
from onetrainer.files.atomic import write_atomic
from onetrainer.files.inside import open_inside
from onetrainer.files.lines import split_lines
from onetrainer.run.commands import CommandName, ImageRequest, encode_command
from onetrainer.run.event_log import EventReader, News
from onetrainer.run.events import ENDINGS
from onetrainer.run.failures import exit_failure
from onetrainer.run.job_folders import is_job
from onetrainer.run.log_file import rotate_log
from onetrainer.run.lost_worker import find_out
from onetrainer.run.oom_kills import oom_kills, own_oom_count
from onetrainer.run.run_folder import RunFolder, busy, cannot_write, require_own

WORKER = "modules.worker"
FOLLOW = "--follow"
"""The worker's option in all processes of a run but the first one."""
WARM = "--warm"
"""The worker's option in the process that keeps a model loaded to try it."""
_LOG_TAIL_BYTES = 16 * 1024
_LOG_TAIL_LINES = 20
_NOTE_TIMEOUT = 5.0
OWN_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
"""Creation flags that keep Ctrl+C away on Windows, which ignores `start_new_session`."""
# Windows has no SIGKILL; there os.kill ends the process at once for every signal but two.
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


@dataclass(frozen=True)
class WorkerExit:
    """The exit of a worker that reported no ending.

    what: A sentence for the user. log: The last lines of its log. failure: Its kind in the
    catalog. was_ended_here: Whether this program killed it.
    """

    what: str
    log: list[str]
    failure: str = ""
    was_ended_here: bool = False


class Run:
    """A run that was started here or elsewhere.

    Everything is read from the run folder, so a window that is opened later shows the same as the
    first one; the process is only asked whether it is alive.
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
        # A new worker replaces the events file; the previous worker's ending is not its own.
        self._reader = EventReader(folder.events, not_file=not_file)
        self._has_ended = False
        self._was_killed = False
        self._oom_before = own_oom_count() if process is not None else None

    def poll(self) -> News:
        """Return the new events since the last call, without waiting."""
        news = self._reader.read()
        if news.restarted:
            self._has_ended = self._was_killed = False
        for event in news.events:
            self._has_ended = isinstance(event, ENDINGS)
        return news

    def send(
        self, command: CommandName, images: ImageRequest | None = None, *, canceled: str = ""
    ) -> None:
        """Send a command to the worker, which obeys between two steps; see `encode_command`."""
        try:
            with open_inside(self.folder.commands, "ab") as handle:
                handle.write(encode_command(command, images, canceled=canceled).encode())
        except OSError as error:
            raise cannot_write(self.folder.commands, error) from error

    @property
    def is_alive(self) -> bool:
        """Return whether the worker is running."""
        if self._process is not None:
            return self._process.poll() is None
        return self.folder.is_busy()

    @property
    def pid(self) -> int | None:
        """The worker's process id; None if no worker is running."""
        if self._process is not None:
            return self._process.pid
        return self.folder.worker_pid()

    @property
    def exit_code(self) -> int | None:
        """The worker's exit code; None while it runs or if it was started elsewhere."""
        return self._process.poll() if self._process is not None else None

    def kill(self) -> None:
        """Kill the worker; the run can be resumed from its last checkpoint."""
        self._was_killed = self.is_alive
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(_NOTE_TIMEOUT)
        elif self._process is None and (pid := self.folder.worker_pid()) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, _KILL)

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for a worker that was started here and return its exit code."""
        return self._process.wait(timeout) if self._process is not None else None

    def unexpected_exit(self) -> WorkerExit | None:
        """Return how the worker died; None while it lives or if its last event was an ending.

        Call it only after `poll` returned no more events.
        """
        if self.is_alive or self._has_ended:
            return None
        log = log_tail(self.folder.log)
        if self._process is None and not self._was_killed:
            failure, what = find_out(self.folder)
        else:
            failure, what = exit_failure(
                self.exit_code,
                is_out_of_memory=self._is_out_of_memory(),
                said=log[-1] if log else "",
            )
        if not self.folder.config.exists():
            what = (
                f"{self.folder.path}: this run folder was moved or deleted while the run trained."
            )
            failure = "file missing"
        return WorkerExit(what, log, failure, self._was_killed)

    def _is_out_of_memory(self) -> bool | None:
        """Return whether the system has killed for memory since the worker was started here.

        None where it does not count.
        """
        before = self._oom_before
        now = oom_kills(before.file) if before else None
        return None if before is None or now is None else now > before.kills


def start(folder: RunFolder) -> Run:
    """Start a worker in the run folder, from its newest checkpoint or from the beginning.

    The worker gets its own session: neither Ctrl+C in the terminal nor closing the window reaches
    it.

    Raises UserError if a worker is already running there, or it is no folder of a run or job.
    """
    if folder.is_busy():
        raise busy(folder.path)
    require_own(folder, may_be_job=is_job(folder))
    try:
        before = folder.events.stat().st_ino if folder.events.exists() else 0
        # Commands to an earlier worker are not for this one.
        write_atomic(folder.commands, b"")
        rotate_log(folder.log)
        with open_inside(folder.log, "ab") as log:
            process = start_detached(WORKER, str(folder.path), log=log)
    except OSError as error:
        raise cannot_write(folder.path, error) from error
    return Run(folder, process, not_file=before)


def start_detached(module: str, *arguments: str, log: IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start a Python module as a process that outlives this one and its terminal.

    log: Gets all that it prints.
    """
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=environment(),
        start_new_session=True,
        creationflags=OWN_GROUP,
    )


def is_follower() -> bool:
    """Return whether a launcher, such as `accelerate launch`, has started others before this."""
    return os.environ.get("WORLD_SIZE", "1") != "1" and os.environ.get("RANK", "0") != "0"


def follow_first() -> int:
    """Take part in the run that the first of these processes starts; return the exit code."""
    command = [sys.executable, "-m", WORKER, FOLLOW]
    return subprocess.run(
        command, env=environment(), stdin=subprocess.DEVNULL, check=False
    ).returncode


def attach(folder: RunFolder) -> Run:
    """Follow a run that another process started, or that has ended."""
    return Run(folder)


def log_tail(path: Path) -> list[str]:
    """Return the last lines of a log; an empty list if there is no log."""
    try:
        with open_inside(path) as handle:
            handle.seek(0, os.SEEK_END)
            handle.seek(max(0, handle.tell() - _LOG_TAIL_BYTES))
            lines = split_lines(handle.read().decode(errors="replace"))
    except OSError:
        return []
    return [line for line in lines if line.strip()][-_LOG_TAIL_LINES:]


def environment() -> dict[str, str]:
    """Return the environment for every Python process that the program starts.

    Modules come from the project folder, the installation and the absolute folders of an inherited
    PYTHONPATH, never from the current folder, where an empty or relative entry would lead.
    """
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join([str(ROOT), *filter(os.path.isabs, inherited)])
    safe = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **safe}
