"""The run's events.jsonl: appended by one worker, read by any number of windows."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, time

from onetrainer.errors import EndsRun
from onetrainer.files.atomic import write_atomic
from onetrainer.files.inside import MOST_BYTES, NotInside, open_inside, read_inside
from onetrainer.files.names import is_inner_path
from onetrainer.files.own_json import say_once
from onetrainer.run.events import (
    Checkpoint,
    Evaluated,
    Event,
    Finished,
    Progress,
    Rewarded,
    Sample,
    Stopped,
)
from onetrainer.run.run_folder import cannot_write
from onetrainer.run.wire import decode_event, encode_event

# A few milliseconds of work, so that the window that reads it stays responsive.
_READ_BYTES = 64 * 1024
_MOST_OF_A_LINE = 16 << 20  # the images of an evaluation have some kB
_STEPS_IN_FULL, _SECONDS_PER_STEP = 10_000, 10.0


class EventsLost(EndsRun):
    """An event could not be written."""


class EventWriter:
    """Appends events; each one is a complete line when `write` returns.

    Of a long run's steps fewer and fewer are written, so that any window can read the file: all of
    the first 20,000, then every second, from 30,000 every third, and so on, but one in ten seconds
    at least. A million steps make 62,000 lines of 14 MB, not of 220.

    After a failure, which is raised once, later events are left out: the run is to end, and its
    state is saved first.

    Args:
        path: The events file; None where nothing is to be written.
        also: Called with each event, written or not.

    Raises:
        UserError: If the file cannot be written.
    """

    def __init__(self, path: Path | None, *, also: Callable[[Event], None] | None = None) -> None:
        self._path = path or Path(os.devnull)
        self._also = also
        self._is_lost = False
        self._step_written_at = monotonic()
        self._lock = threading.Lock()
        try:
            with open_inside(path, "ab") if path else self._path.open("ab") as file:
                self._descriptor = os.dup(file.fileno())
        except OSError as error:
            raise cannot_write(self._path, error) from error

    def write(self, event: Event) -> None:
        """Append one event. Raises EventsLost if the disk is full; no partial line is left."""
        with self._lock:
            if self._is_due(event):
                self._append(event)
        if self._also is not None:
            self._also(event)

    def write_last(self, event: Event) -> None:
        """Append an event that none can follow: other threads that write wait for the exit."""
        self._lock.acquire()
        self._append(event)
        if self._also is not None:
            self._also(event)

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _is_due(self, event: Event) -> bool:
        if not isinstance(event, Progress | Rewarded):
            return True
        is_last = isinstance(event, Progress) and event.step == event.total_steps
        is_late = monotonic() - self._step_written_at > _SECONDS_PER_STEP
        every = event.step // _STEPS_IN_FULL or 1
        if event.step % every and not is_last and not is_late:
            return False
        if isinstance(event, Progress):  # which follows the Rewarded of its step
            self._step_written_at = monotonic()
        return True

    def _append(self, event: Event) -> None:
        if self._is_lost:
            return
        line = encode_event(event, time=time()).encode()
        size = self.size
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError as error:
            self._is_lost = True
            with suppress(OSError):
                os.ftruncate(self._descriptor, size)
            reason = cannot_write(self._path, error)
            raise EventsLost(reason.what, reason.expected, reason.remedy) from error


def rewind(path: Path, size: int) -> None:
    """Truncate the events to the first `size` bytes.

    The file is replaced instead of shortened, so that readers notice.
    """
    content = b""
    try:
        with suppress(FileNotFoundError):
            content = read_inside(path)[:size]
        write_atomic(path, content)
    except OSError as error:
        raise cannot_write(path, error) from error


@dataclass(frozen=True)
class News:
    """The events since the previous read.

    restarted: The events start over because the run was resumed from an earlier point; discard what
    was read before. is_complete: Whether the end of the file was reached.
    """

    events: list[Event]
    restarted: bool = False
    is_complete: bool = True


class EventReader:
    """Reads a run's events in order, in bounded chunks."""

    def __init__(self, path: Path, *, not_file: int = 0) -> None:
        """Read from `path`, ignoring the file with inode `not_file` until it is replaced."""
        self._path = path
        self._offset = 0
        self._rest = b""
        self._file_id = 0
        self._not_file = not_file

    def skip(self) -> None:
        """Leave out all events so far."""
        with suppress(FileNotFoundError):
            status = self._path.lstat()
            self._file_id, self._offset = status.st_ino, status.st_size

    def read(self) -> News:
        """Return the next events, at most 64 KiB of them."""
        try:
            with open_inside(self._path) as handle:
                status = os.fstat(handle.fileno())
                if status.st_ino == self._not_file:
                    return News([])
                replaced = self._file_id not in (0, status.st_ino)
                if replaced or status.st_size < self._offset:
                    self._offset, self._rest, replaced = 0, b"", True
                self._file_id = status.st_ino
                handle.seek(self._offset)
                chunk = handle.read(min(_READ_BYTES, MOST_BYTES - self._offset))
        except (FileNotFoundError, NotInside):
            return News([])
        self._offset += len(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > _MOST_OF_A_LINE:
            self._rest = b""
        decoded = [decode_event(line.decode(errors="replace")) for line in lines if line]
        events = [event for event in map(_with_own_files, decoded) if event is not None]
        if len(events) < len(decoded):
            say_once(f"{self._path} has lines that are no events of this version: they are ignored")
        return News(events, restarted=replaced, is_complete=len(chunk) < _READ_BYTES)


def _with_own_files(event: Event | None) -> Event | None:
    """Return an event of a run without outputs elsewhere; None if it is about a file elsewhere."""
    match event:
        case Sample() | Checkpoint():
            return event if is_inner_path(event.path) else None
        case Finished() | Stopped():
            outputs = event.outputs if isinstance(event.outputs, list) else []
            return replace(event, outputs=[*filter(is_inner_path, outputs)])
        case Evaluated():
            images = event.images if isinstance(event.images, list) else [None]
            paths = (one.get("path") if isinstance(one, dict) else None for one in images)
            is_own = all(map(is_inner_path, paths))
            return event if is_own else None
    return event


def read_all(path: Path) -> list[Event]:
    """Return every event of a run so far; an empty list if there is no file."""
    reader = EventReader(path)
    events: list[Event] = []
    while True:
        news = reader.read()
        events += news.events
        if news.is_complete:
            return events
