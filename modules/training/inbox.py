"""Commands to this worker, read from the run folder by one thread and obeyed between steps."""

import threading
from pathlib import Path
from typing import Literal

from onetrainer.run.commands import CommandName
from onetrainer.run.wire import decode_command

POLL_SECONDS = 0.05


class Inbox:
    """What has been asked for and not yet done. The thread never touches torch.

    A thread that has once run a torch operation would slow every training step on the CPU.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asked: set[CommandName] = set()
        self._lock = threading.Lock()
        self._done = threading.Event()
        # From the beginning: whoever starts a worker empties the file, and what is asked while
        # torch still loads counts too.
        self._offset = 0
        self._thread = threading.Thread(target=self._follow, name="commands", daemon=True)
        self._thread.start()

    @property
    def leaving(self) -> Literal["stop", "pause"] | None:
        """Whether, and how, the run is to end after the step being made."""
        with self._lock:
            if "stop" in self._asked:
                return "stop"
            return "pause" if "pause" in self._asked else None

    def is_leaving(self) -> bool:
        """Whether the run is to end."""
        return self.leaving is not None

    def has(self, name: CommandName) -> bool:
        """Whether this was asked for and is not done yet."""
        with self._lock:
            return name in self._asked

    def take(self, name: CommandName) -> bool:
        """Whether this was asked for since the last time; asking is then forgotten."""
        with self._lock:
            was_asked = name in self._asked
            self._asked.discard(name)
            return was_asked

    def close(self) -> None:
        """Ends the thread."""
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
                self._asked |= {command.name for command in commands if command}
