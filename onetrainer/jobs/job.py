"""A job without a run folder, such as converting a file, in a process of its own.

The process gets its request as JSON on standard input and writes events as lines of JSON to
standard output. Output of libraries goes to a log that is kept only if the program fails.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from onetrainer.config.base.section import Section
from onetrainer.errors import EXIT_STOPPED
from onetrainer.jobs.caption_request import CaptionRequest
from onetrainer.jobs.convert_request import ConvertRequest
from onetrainer.jobs.lora_requests import ExtractRequest, MergeRequest
from onetrainer.jobs.plan_request import CacheRequest, PlanRequest
from onetrainer.jobs.sample_request import SampleRequest
from onetrainer.jobs.self_test_request import SelfTestRequest
from onetrainer.run.client import OWN_GROUP, WORKER, environment, log_tail
from onetrainer.run.events import ENDINGS, Event, Failed, Finished, Stopped
from onetrainer.run.failures import exit_failure
from onetrainer.run.wire import decode_event

JobName = Literal["convert", "merge", "extract", "sample", "plan", "cache", "caption", "self_test"]
REQUESTS: Mapping[str, type[Section]] = {
    "convert": ConvertRequest,
    "merge": MergeRequest,
    "extract": ExtractRequest,
    "sample": SampleRequest,
    "plan": PlanRequest,
    "cache": CacheRequest,
    "caption": CaptionRequest,
    "self_test": SelfTestRequest,
}
"""What each job is asked for; the function of its name in `modules/jobs` takes it."""


class Job:
    """A running job."""

    def __init__(self, name: JobName, request: Section) -> None:
        """Start the process."""
        self._is_stopping = False
        self._process, self.log = start_worker("--job", name)
        assert self._process.stdin is not None
        # If the process is gone already, its exit code is reported.
        with suppress(BrokenPipeError), self._process.stdin as stdin:
            # What is not set stays so: a prompt has only the settings that its file has.
            stdin.write(request.model_dump_json(exclude_unset=True).encode())

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def events(self) -> Iterator[Event]:
        """Yield the events as they arrive; the last one is always an ending."""
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
        """Ask the process to end without leaving partial files; the second call kills it."""
        if self._process.poll() is not None:
            return
        if self._is_stopping:
            self._process.kill()
        else:
            self._is_stopping = True
            self._process.terminate()

    def _ending(self, ending: Event | None, code: int) -> Event:
        if not isinstance(ending, Finished) and (self._is_stopping or code == EXIT_STOPPED):
            ending = Stopped(0, "stop")
        return ending_of(ending, code, self.log)


def start_worker(*arguments: str) -> tuple["subprocess.Popen[bytes]", Path]:
    """Start a worker that is spoken with over pipes; return it, and the log of its libraries.

    It is in its own session, which Ctrl+C in the terminal does not reach.
    """
    descriptor, path = tempfile.mkstemp(prefix="onetrainer-", suffix=".log")
    with os.fdopen(descriptor, "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", WORKER, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment(),
            start_new_session=True,
            creationflags=OWN_GROUP,
        )
    return process, Path(path)


def ending_of(ending: Event | None, code: int, log: Path) -> Event:
    """Return the last event of a process that has ended; its log is kept if the program failed.

    ending: The one that it reported; None if it reported none.
    """
    if ending is None:
        name, what = exit_failure(code)
        ending = Failed("program", what, failure=name)
    if isinstance(ending, Failed) and ending.kind == "program":
        tail = "".join(f"\n  | {line}" for line in log_tail(log))
        remedy = f"{ending.remedy} The log is {log}{':' if tail else ''}{tail}".strip()
        return replace(ending, remedy=remedy)
    log.unlink(missing_ok=True)
    return ending
