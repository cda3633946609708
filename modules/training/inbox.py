"""Commands to this worker, read from the run folder by a thread and obeyed between steps."""

import threading
from pathlib import Path
from typing import Literal

from onetrainer.run.commands import CommandName, decode_command

POLL_SECONDS = 0.05


class Inbox:
    """Commands received and not yet carried out.

    The thread never touches torch: a thread that has run one torch operation slows every training
    step on the CPU.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._received: set[CommandName] = set()
        self._lock = threading.Lock()
        self._done = threading.Event()
        # From the start of the file: the process that starts a worker empties it, and commands
        # sent while torch is loading count too.
        self._offset = 0
        self._thread = threading.Thread(target=self._follow, name="commands", daemon=True)
        self._thread.start()

    @property
    def leaving(self) -> Literal["stop", "pause"] | None:
        """How the run is to end after the current step; None if it goes on."""
        with self._lock:
            if "stop" in self._received:
                return "stop"
            return "pause" if "pause" in self._received else None

    def is_leaving(self) -> bool:
        """Return whether the run is to end."""
        return self.leaving is not None

    def has(self, name: CommandName) -> bool:
        """Return whether a command was received and is not carried out yet."""
        with self._lock:
            return name in self._received

    def take(self, name: CommandName) -> bool:
        """Return whether a command was received, and remove it."""
        with self._lock:
            was_received = name in self._received
            self._received.discard(name)
            return was_received

    def close(self) -> None:
        """Stop the thread."""
        self._done.set()
        self._thread.join()

    def _follow(self) -> None:
        rest = b""
        while not self._done.wait(POLL_SECONDS):
            if not self._path.exists():
                continue
            with self._path.open("rb") as handle:
                handle.seek(self._offset)
                chunk = handle.read()
            self._offset += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            commands = [decode_command(line.decode(errors="replace")) for line in lines]
            with self._lock:
                self._received |= {command for command in commands if command}
