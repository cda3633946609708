"""Progress and result of a job in the terminal."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO

from onetrainer.cli.screen import Screen
from onetrainer.config.base.section import Section
from onetrainer.errors import EXIT_PROGRAM, sentence
from onetrainer.jobs.job import Job, JobName
from onetrainer.jobs.options import with_option_names
from onetrainer.run.events import (
    Event,
    Failed,
    Finished,
    Forecast,
    Phase,
    Sample,
    Stopped,
    Warned,
    exit_code_for,
)


def run_job(
    name: JobName,
    request: Section,
    *,
    out: TextIO | None = None,
    lines_of: Callable[[Forecast], list[str]] = lambda _: [],
    failed: Callable[[str], None] = lambda _: None,
) -> int:
    """Run a job, show its progress and return its exit code.

    Ctrl+C stops it, a second one kills it. Errors go to standard error. lines_of: returns the lines
    to print for a forecast. failed: also called with the error message.
    """
    screen = Screen(out or sys.stdout, (out or sys.stdout).isatty())
    code = EXIT_PROGRAM
    with _interruptible(name, request) as job:
        listed: set[str] = set()
        for event in job.events():
            if isinstance(event, Forecast):
                for line in lines_of(event):
                    screen.write_line(line)
            if isinstance(event, Failed):
                failed(_error_message(event))
            _show(event, screen, listed)
            ending = exit_code_for(event)
            code = code if ending is None else ending
    return code


def _show(event: Event, screen: Screen, listed: set[str]) -> None:
    """Show an event. listed: The paths that were printed already."""
    match event:
        case Phase():
            count = f" {event.done}/{event.total}" if event.total else ""
            detail = f" ({event.detail})" if event.detail else ""
            # For example "sampling 1/4 (step 3 of 20)"; details of "loading" are complete.
            is_complete = event.name == "loading" and event.detail
            screen.update_status(event.detail if is_complete else f"{event.name}{count}{detail}")
        case Sample():
            listed.add(event.path)
            screen.write_line(event.path)
        case Warned():
            screen.write_line(f"warning: {event.text}")
        case Finished():
            for line in (*event.summary, *(path for path in event.outputs if path not in listed)):
                screen.write_line(line)
        case Stopped():
            screen.write_line("Stopped.")
        case Failed():
            screen.clear()
            sys.stderr.write(_error_message(event) + "\n")
    if isinstance(event, Finished):
        screen.clear()


def _error_message(event: Failed) -> str:
    parts = filter(None, (event.what, event.expected, event.remedy))
    # A part of several lines ends with a log, which stays unchanged.
    texts = (part if "\n" in part else sentence(part) for part in parts)
    return with_option_names(" ".join(texts))


@contextmanager
def _interruptible(name: JobName, request: Section) -> Iterator[Job]:
    """Start the job; interrupts, including those during its start, stop it."""
    job: Job | None = None
    count = 0

    def handle_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if job is not None:
            job.stop()

    previous_handlers = {
        number: signal.signal(number, handle_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        job = Job(name, request)
        for _ in range(count):
            job.stop()
        yield job
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
