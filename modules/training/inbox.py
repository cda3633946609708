"""Commands to this worker, read from the run folder by a thread and obeyed between steps."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from onetrainer.files.inside import open_inside
from onetrainer.files.own_json import say_once
from onetrainer.run.commands import (
    LEAVING,
    Command,
    CommandName,
    ImageRequest,
    Leaving,
    decode_command,
)

POLL_SECONDS = 0.05


class Inbox:
    """Commands received and not yet carried out.

    The thread never touches torch: a thread that has run one torch operation slows every training
    step on the CPU.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        leave: Callable[[], None] | None = None,
        report: Callable[[Leaving], None] | None = None,
    ) -> None:
        """Follow the file of commands.

        Args:
            path: The file; None receives nothing, in a process that follows another one's orders.
            leave: Ends the process; None if `while_loading` may not do that.
            report: Writes the last event of a run that has written none yet.
        """
        self._path = path
        self._leave = leave
        self._report_early = report
        self._report: Callable[[Leaving], None] | None = None
        self._received: set[CommandName] = set()
        self._images: list[ImageRequest] = []
        self._canceled: set[str] = set()
        # Reentrant: the thread holds it while it receives signals.
        self._lock = threading.RLock()
        self._listen: Callable[[], None] | None = None
        self._done = threading.Event()
        # From the start of the file: the process that starts a worker empties it, and commands
        # sent while torch is loading count too.
        self._offset, self._rest = 0, b""
        self._thread = threading.Thread(target=self._follow, name="commands", daemon=True)
        if path is not None:
            self._thread.start()

    @property
    def leaving(self) -> Leaving | None:
        """How the run is to end after the current step; None if it goes on."""
        with self._lock:
            if not self._received:
                return None
            return next((name for name in reversed(LEAVING) if name in self._received), None)

    def is_leaving(self) -> bool:
        """Return whether the run is to end."""
        return self.leaving is not None

    def has(self, name: CommandName) -> bool:
        """Return whether a command was received and is not carried out yet."""
        with self._lock:
            return name in self._received

    def put(self, name: CommandName) -> None:
        """Receive a command from this process itself."""
        with self._lock:
            self._received.add(name)

    def take(self, name: CommandName) -> bool:
        """Return whether a command was received, and remove it."""
        with self._lock:
            was_received = name in self._received
            self._received.discard(name)
            return was_received

    def has_images(self) -> bool:
        """Return whether images were asked for that are not generated yet."""
        with self._lock:
            return bool(self._images)

    def take_images(self) -> ImageRequest | None:
        """Return the oldest request for images, and remove it; None if there is none."""
        with self._lock:
            return self._images.pop(0) if self._images else None

    def is_canceled(self, request: str) -> bool:
        """Return whether the images of a request, by its id, are no longer wanted."""
        with self._lock:
            return request in self._canceled

    def listen(self, receive: Callable[[], None] | None) -> None:
        """Call `receive` in the thread, each time it looks for commands; None for no longer."""
        with self._lock:
            self._listen = receive

    @contextmanager
    def while_loading(self, report: Callable[[Leaving], None] | None = None) -> Iterator[None]:
        """End the process at once if the run is to end: libraries load and download for minutes.

        Only for phases that write nothing a later start could stumble over.

        Args:
            report: Writes the last event; None if the run has written none yet.
        """
        with self._lock:
            self._report = report or self._report_early
        try:
            yield
        finally:
            # Not before the thread has finished ending the process.
            with self._lock:
                self._report = None

    def close(self) -> None:
        """Stop the thread."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def _follow(self) -> None:
        while not self._done.wait(POLL_SECONDS):
            commands = self._read()
            with self._lock:
                if self._listen is not None:
                    self._listen()
                for command in commands:
                    self._receive(command)
                reason = self.leaving
                if reason is None or self._report is None or self._leave is None:
                    continue
                try:
                    self._report(reason)
                finally:
                    self._leave()

    def _receive(self, command: Command) -> None:
        if command.images is not None:
            self._images.append(command.images)
        elif command.name == "cancel":
            self._canceled.add(command.canceled)
        else:
            self._received.add(command.name)

    def _read(self) -> list[Command]:
        """Return the commands of the complete lines that were added since the last call."""
        chunk = b""
        assert self._path is not None
        # Without the file or its disk for a while, signals are still obeyed.
        with suppress(OSError), open_inside(self._path) as handle:
            if handle.seek(0, os.SEEK_END) < self._offset:
                # Another worker was to be started, and emptied it.
                self._offset, self._rest = 0, b""
            handle.seek(self._offset)
            chunk = handle.read()
        self._offset += len(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        commands = [decode_command(line.decode(errors="replace")) for line in lines if line]
        if None in commands:
            say_once(f"{self._path} has lines that are no commands: they are ignored")
        return [command for command in commands if command is not None]
