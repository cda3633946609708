"""A worker that keeps a model loaded between requests for images, as the window asks for them."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock

from onetrainer.jobs.job import ending_of, start_worker
from onetrainer.jobs.sample_request import SampleRequest
from onetrainer.model_files.hub import is_hub_name
from onetrainer.run.client import WARM
from onetrainer.run.events import ENDINGS, Event, Failed, Stopped
from onetrainer.run.wire import decode_event

CANCEL_LINE = b"cancel\n"
_END_SECONDS = 5.0


class WarmWorker:
    """A process that is started when it is needed, and ends by itself when it is not.

    One request at a time: `events` in one thread, `cancel` and `close` in any.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._log = Path()
        self._uses_network = False
        self._is_cancelled = False
        self._writing = Lock()

    @property
    def pid(self) -> int | None:
        """The id of the process; None if there is none."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def events(self, request: SampleRequest) -> Iterator[Event]:
        """Send a request, and yield the events of it as they arrive; the last one is an ending."""
        self._is_cancelled = False
        for is_last in (False, True):
            process = self._started(request)
            has_begun = False
            for event in self._asked(process, request):
                has_begun = True
                if isinstance(event, ENDINGS):
                    yield self._ending(process, event)
                    return
                yield event
            if is_last or has_begun or self._is_cancelled:
                yield self._ending(process, None)
                return
            self._end()  # it has ended by itself just before: another one is asked

    def cancel(self) -> None:
        """Ask to end the request; the second call kills the process."""
        process, was_cancelled = self._process, self._is_cancelled
        self._is_cancelled = True
        if process is not None and was_cancelled:
            process.kill()
        elif process is not None:
            self._write(process, CANCEL_LINE)

    def close(self) -> None:
        """End the process, if there is one."""
        self._is_cancelled = True
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(_END_SECONDS)
            _close_pipes(process)
            self._log.unlink(missing_ok=True)

    def _started(self, request: SampleRequest) -> "subprocess.Popen[bytes]":
        """Return the process; a new one also if libraries were told not to use the network."""
        uses_network = is_hub_name(request.base) and not request.offline
        if self.pid is None or self._uses_network != uses_network:
            self._end()
            self._process, self._log = start_worker(WARM)
            self._uses_network = uses_network
        assert self._process is not None
        return self._process

    def _asked(self, process: "subprocess.Popen[bytes]", request: SampleRequest) -> Iterator[Event]:
        self._write(process, request.model_dump_json(exclude_unset=True).encode() + b"\n")
        while line := _line(process):
            event = decode_event(line.decode(errors="replace"))
            if event is not None:
                yield event

    def _ending(self, process: "subprocess.Popen[bytes]", event: Event | None) -> Event:
        """Return the last event of a request; after a failure there will be another process.

        event: What the process reported; None if it has ended.
        """
        if event is not None and not (isinstance(event, Failed) and event.kind == "program"):
            return event
        code = process.wait()
        _close_pipes(process)
        if process is self._process:
            self._process = None  # its log stays, for whoever reads of the failure
        if event is None and self._is_cancelled:
            event = Stopped(0, "stop")
        return ending_of(event, code, self._log)

    def _write(self, process: "subprocess.Popen[bytes]", line: bytes) -> None:
        assert process.stdin is not None
        # If the process is gone, its end is reported.
        with suppress(OSError, ValueError), self._writing:
            process.stdin.write(line)
            process.stdin.flush()


def _line(process: "subprocess.Popen[bytes]") -> bytes:
    """Return the next line of a process; an empty one if it has ended, or was closed here."""
    assert process.stdout is not None
    try:
        return process.stdout.readline()
    except ValueError:
        return b""


def _close_pipes(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError, ValueError):  # of what could not be written any more
                pipe.close()
