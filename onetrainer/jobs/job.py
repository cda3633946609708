"""A job without a run folder, such as converting a file: a process of its own does it.

It gets its request as JSON on its standard input, and tells events as lines of JSON on its standard
output. Whatever libraries print goes to a log that is kept only if the program fails.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from onetrainer.config.base.section import Section
from onetrainer.errors import EXIT_STOPPED
from onetrainer.run.client import WORKER, environment, in_words, log_tail
from onetrainer.run.events import ENDINGS, Event, Failed, Finished, Stopped
from onetrainer.run.wire import decode_event

JobName = Literal["convert", "sample", "plan", "cache"]


class Job:
    """A job at work."""

    def __init__(self, name: JobName, request: Section) -> None:
        """Starts it. It has a session of its own: Ctrl+C in the terminal does not reach it."""
        descriptor, path = tempfile.mkstemp(prefix=f"onetrainer-{name}-", suffix=".log")
        self.log = Path(path)
        self._is_asked_to_end = False
        with os.fdopen(descriptor, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", WORKER, "--job", name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )
        assert self._process.stdin is not None
        # A process that is gone already tells so by its exit code.
        with suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(request.model_dump_json().encode())

    @property
    def pid(self) -> int:
        """The process that does it."""
        return self._process.pid

    def events(self) -> Iterator[Event]:
        """What it tells, as it comes; the last one is how it ended, whatever happened."""
        ending: Event | None = None
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                event = decode_event(line.decode(errors="replace"))
                if isinstance(event, ENDINGS):
                    ending = event
                elif event is not None:
                    yield event
        yield self._ending(ending, self._process.wait())

    def stop(self) -> None:
        """Asks it to end, which leaves no half-written file; asked again it ends at once."""
        if self._process.poll() is not None:
            return
        if self._is_asked_to_end:
            self._process.kill()
        else:
            self._is_asked_to_end = True
            self._process.terminate()

    def _ending(self, told: Event | None, code: int) -> Event:
        ending = told
        if not isinstance(told, Finished) and (self._is_asked_to_end or code == EXIT_STOPPED):
            ending = Stopped(0, "stop")
        elif told is None:
            ending = Failed("program", in_words(code))
        if isinstance(ending, Failed) and ending.kind == "program":
            return self._with_log(ending)
        self.log.unlink(missing_ok=True)
        assert ending is not None
        return ending

    def _with_log(self, failed: Failed) -> Failed:
        last = "".join(f"\n  | {line}" for line in log_tail(self.log))
        place = f"The log is {self.log}{':' if last else ''}{last}"
        return Failed("program", failed.what, failed.expected, f"{failed.remedy} {place}".strip())
