"""The run's events.jsonl: appended by one worker, read by any number of windows."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import time

from onetrainer.run.events import Event
from onetrainer.run.run_folder import cannot_write, write_atomic
from onetrainer.run.wire import decode_event, encode_event

# Small enough that a window that reads it stays fluid: a few milliseconds' work.
_READ_BYTES = 64 * 1024


class EventWriter:
    """Appends events; each one is a whole line the moment `write` returns.

    also: told of each event after that.
    """

    def __init__(self, path: Path, *, also: Callable[[Event], None] | None = None) -> None:
        self._path = path
        self._also = also
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, event: Event) -> None:
        """Appends one event. Raises UserError, and leaves no half of it, on a full disk."""
        line = encode_event(event, time=time()).encode()
        size = self.size
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            os.ftruncate(self._descriptor, size)
            raise cannot_write(self._path, error) from error
        if self._also is not None:
            self._also(event)

    @property
    def size(self) -> int:
        """How many bytes of events there are."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Ends the writing."""
        os.close(self._descriptor)


def rewind(path: Path, size: int) -> None:
    """Forgets what came after the first `size` bytes of events.

    The file is replaced and not shortened, so that a reader sees that it is another one.
    """
    kept = b""
    try:
        if path.exists():
            with path.open("rb") as handle:
                kept = handle.read(size)
        write_atomic(path, kept)
    except OSError as error:
        raise cannot_write(path, error) from error


@dataclass(frozen=True)
class News:
    """What has happened since the last look.

    restarted: the events begin anew, because the run was taken up from an earlier point; what was
    shown before is to be forgotten. is_all: whether nothing more was there to be read.
    """

    events: list[Event]
    restarted: bool = False
    is_all: bool = True


class EventReader:
    """Follows a run's events, from the first to the newest, in bounded bites."""

    def __init__(self, path: Path, *, not_file: int = 0) -> None:
        """not_file: the number of a file to pass over, until a new worker replaces it."""
        self._path = path
        self._offset = 0
        self._rest = b""
        self._file_id = 0
        self._not_file = not_file

    def read(self) -> News:
        """The next events, at most 64 KiB of them; none is no news."""
        try:
            with self._path.open("rb") as handle:
                status = os.fstat(handle.fileno())
                if status.st_ino == self._not_file:
                    return News([])
                replaced = self._file_id not in (0, status.st_ino)
                if replaced or status.st_size < self._offset:
                    self._offset, self._rest, replaced = 0, b"", True
                self._file_id = status.st_ino
                handle.seek(self._offset)
                chunk = handle.read(_READ_BYTES)
        except FileNotFoundError:
            return News([])
        self._offset += len(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        decoded = (decode_event(line.decode(errors="replace")) for line in lines if line)
        events = [event for event in decoded if event is not None]
        return News(events, restarted=replaced, is_all=len(chunk) < _READ_BYTES)


def read_all(path: Path) -> list[Event]:
    """Every event of a run so far; none if there is no file."""
    reader = EventReader(path)
    events: list[Event] = []
    while True:
        news = reader.read()
        events += news.events
        if news.is_all:
            return events
