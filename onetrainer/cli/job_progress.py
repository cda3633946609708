"""A job in the terminal: what it does, what it has made, and how it ended."""

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
    """Does a job and shows it; returns the exit code.

    Ctrl+C asks it to end, a second one ends it at once. What is wrong goes to standard error.
    lines_of: what is to be shown of a forecast. failed: gets what is wrong as well.
    """
    screen = Screen(out or sys.stdout, (out or sys.stdout).isatty())
    code = EXIT_PROGRAM
    with _interruptible(name, request) as job:
        told: set[str] = set()
        for event in job.events():
            if isinstance(event, Forecast):
                for line in lines_of(event):
                    screen.stay(line)
            if isinstance(event, Failed):
                failed(_what_is_wrong(event))
            _show(event, screen, told)
            ending = exit_code_for(event)
            code = code if ending is None else ending
    return code


def _show(event: Event, screen: Screen, told: set[str]) -> None:
    """told: the files that were named already."""
    match event:
        case Phase():
            screen.move(_phase(event))
        case Sample():
            told.add(event.path)
            screen.stay(event.path)
        case Warned():
            screen.stay(f"warning: {event.text}")
        case Finished():
            for line in (*event.summary, *(path for path in event.outputs if path not in told)):
                screen.stay(line)
        case Stopped():
            screen.stay("Stopped.")
        case Failed():
            screen.clear()
            sys.stderr.write(_what_is_wrong(event) + "\n")
    if isinstance(event, Finished):
        screen.clear()


def _phase(event: Phase) -> str:
    """For example "sampling 1/4 (step 3 of 20)"; what is done to load tells itself."""
    if event.name == "loading" and event.detail:
        return event.detail
    count = f" {event.done}/{event.total}" if event.total else ""
    return f"{event.name}{count}" + (f" ({event.detail})" if event.detail else "")


def _what_is_wrong(event: Failed) -> str:
    parts = filter(None, (event.what, event.expected, event.remedy))
    return with_option_names(" ".join(map(_sentence, parts)))


def _sentence(text: str) -> str:
    """A log behind the last sentence stays as it is."""
    return text if "\n" in text else sentence(text)


@contextmanager
def _interruptible(name: JobName, request: Section) -> Iterator[Job]:
    """The job at work; interrupts, also those that come while it is being started, stop it."""
    job: Job | None = None
    count = 0

    def obey(_number: int, _frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if job is not None:
            job.stop()

    before = {number: signal.signal(number, obey) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        job = Job(name, request)
        for _ in range(count):
            job.stop()
        yield job
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
