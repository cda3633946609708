"""The process that generates images one request after the other, with a model that stays loaded.

It owns the device while it lives, and ends when another process wants the device, after minutes
without a request, and with the program that asks it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import IO

from modules.jobs.loaded_model import LoadedModel
from modules.jobs.sample import sample_with
from onetrainer.errors import EXIT_DONE, UserError
from onetrainer.jobs.sample_request import SampleRequest
from onetrainer.run.device_owner import (
    Expect,
    Owner,
    expecting,
    is_wanted,
    owning,
    places_of,
)
from onetrainer.run.events import Phase, Report, Stopped
from onetrainer.run.failures import failed

CANCEL = "cancel"
"""The line that ends the request that is worked on; what it has made is kept."""
IDLE_SECONDS = 300.0
OWNER = Owner("Try model", yields=True)
_POLL_SECONDS = 0.1


class _Ended(Exception):
    """The request is to end. because: What people are told; "" if they asked for it."""

    def __init__(self, because: str = "") -> None:
        self.because = because


def warm(first: str, lines: IO[bytes], report: Report, *, idle: float = IDLE_SECONDS) -> int:
    """Answer requests, a line of JSON each, with events; return the exit code.

    first: The first line. lines: Those that follow.

    Raises:
        Exception: What failed in the program, after which the model may be broken.
    """
    requests = _Requests(first, lines)
    places: list[str] = []  # that are owned
    expect: Expect = lambda _: None  # noqa: E731 # until they are
    model = LoadedModel()
    with ExitStack() as stack:
        for request in requests.until_idle(partial(is_wanted, places), idle):
            wanted = [*places_of(request.device)]
            try:
                if wanted != places:
                    stack.close()
                    places.clear()
                    model = LoadedModel()
                    owned, expect = _owning(wanted, requests, report)
                    stack.enter_context(owned)
                    places += wanted
                telling = expecting(report, expect)
                report(sample_with(model, request, telling, partial(_check, requests, wanted)))
            except UserError as error:
                report(failed(error))
            except _Ended as ended:
                report(Stopped(0, "stop", because=ended.because))
            if places:
                expect(0.0)
    return EXIT_DONE


def _owning(places: list[str], requests: "_Requests", report: Report) -> tuple[ExitStack, Expect]:
    """Own devices, after waiting for them unless the request ends.

    Returns what lets them go, and what tells others when that is expected.
    """
    with ExitStack() as stack:
        expect = stack.enter_context(
            owning(
                places,
                OWNER,
                on_wait=lambda other: report(
                    Phase("waiting", detail=f"{other.name} uses the device")
                ),
                check=requests.check,
            )
        )
        return stack.pop_all(), expect


def _check(requests: "_Requests", places: list[str]) -> None:
    requests.check()
    if is_wanted(places):
        raise _Ended("something else needs the device")


class _Requests:
    """Lines that a thread reads, so that whether one is there can be asked at any time."""

    def __init__(self, first: str, lines: IO[bytes]) -> None:
        self._lines = SimpleQueue[str]()
        self._lines.put(first)
        self._is_over = False
        self._thread = Thread(target=self._read, args=(lines,), daemon=True)
        self._thread.start()

    def until_idle(self, is_to_end: Callable[[], bool], idle: float) -> Iterator[SampleRequest]:
        """Yield requests until there are none for so many seconds, or it is to end."""
        since = monotonic()
        while not (is_to_end() or monotonic() - since > idle):
            try:
                line = self._lines.get(timeout=_POLL_SECONDS)
            except Empty:
                if self._is_over:
                    return
                continue
            if line != CANCEL:  # which came too late
                yield SampleRequest.model_validate_json(line)
                since = monotonic()

    def check(self) -> None:
        """Raise _Ended if the request was canceled."""
        if not self._lines.empty() and self._lines.get() == CANCEL:
            raise _Ended

    def _read(self, lines: IO[bytes]) -> None:
        for line in lines:
            self._lines.put(line.decode().strip())
        self._is_over = True
