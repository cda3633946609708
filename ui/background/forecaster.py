"""How much memory a run with the draft's settings would take: asked of a job, kept for all pages.

No Tk: the job is followed in a thread, and what it tells is handed over by `Jobs`.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from onetrainer.config.train import TrainConfig
from onetrainer.json_file import Document
from onetrainer.run.events import Event, Failed, Forecast, Phase, Stopped
from ui.background.threads import Jobs
from ui.model.draft import Draft

# Sections in which nothing takes memory.
_WITHOUT_MEMORY = ("output", "metadata", "description")
# Starting a process takes a fraction of it.
_MOST_WAIT_S = 5.0


class ForecastJob(Protocol):
    """A job at work."""

    def events(self) -> Iterator[Event]:
        """What it tells, as it comes; the last one is how it ended."""

    def stop(self) -> None:
        """Asks it to end; asked again it ends at once."""


class Forecaster:
    """Asks for one forecast at a time. forecast: the newest one; failed: why there is none.

    activity: what the job is doing now. turn: how often anything has changed.
    """

    def __init__(
        self, draft: Draft, jobs: Jobs, begin: Callable[[TrainConfig], ForecastJob]
    ) -> None:
        self._draft = draft
        self._jobs = jobs
        self._start = begin
        # Guards what the threads that start jobs share with the window's.
        self._condition = threading.Condition()
        self._work: ForecastJob | None = None
        self._starting = 0
        self._request = 0
        self._inputs: Document = {}
        self._forecast_inputs: Document = {}
        self._listeners: list[Callable[[], None]] = []
        self.is_working = False
        self.activity = ""
        self.forecast: Forecast | None = None
        self.failed: Failed | None = None
        self.revision = 0

    def listen(self, listener: Callable[[], None]) -> None:
        """Has a function called whenever there is news."""
        self._listeners.append(listener)

    @property
    def is_outdated(self) -> bool:
        """Whether settings that may count have changed since the forecast."""
        return self.forecast is not None and self._forecast_inputs != _memory_settings(self._draft)

    @property
    def is_for_processor(self) -> bool:
        """Whether the forecast is of settings that choose the processor."""
        hardware = self._forecast_inputs.get("hardware")
        return isinstance(hardware, dict) and hardware.get("device") == "cpu"

    def blocked_reason(self) -> str:
        """Why nothing can be counted now; "" if it can."""
        if self._draft.value_errors and self._draft.valid_config() is None:
            return "Put the numbers right first."
        return ""

    def start(self) -> None:
        """Asks for a forecast of the settings as they are now."""
        config = self._draft.valid_config()
        if config is None or self.is_working:
            return
        self._inputs = _memory_settings(self._draft)
        with self._condition:
            self._request += 1
            self._starting += 1
            request = self._request
        self.is_working, self.activity, self.failed = True, "", None
        self._jobs.run(
            lambda: self._follow(request, config),
            lambda _: self._finish(request),
            lambda error: self._fail(request, error),
        )
        self._notify()

    def stop(self) -> None:
        """Gives the count up; what was known before stays."""
        with self._condition:
            self._request += 1
            work, self._work = self._work, None
        if work is not None:
            work.stop()
        if self.is_working:
            self.is_working = False
            self._notify()

    def close(self) -> None:
        """Gives the count up; a job that is just being started does not outlive the window."""
        self.stop()
        with self._condition:
            self._condition.wait_for(lambda: not self._starting, _MOST_WAIT_S)

    def _follow(self, request: int, config: TrainConfig) -> None:
        """In a thread: begins the job and hands on what it tells."""
        for event in self._start_job(request, config).events():
            self._jobs.post(_call(self._handle_event, request, event))

    def _start_job(self, request: int, config: TrainConfig) -> ForecastJob:
        """The job at work; asked to end at once if it was given up while it was being started."""
        try:
            work = self._start(config)
            with self._condition:
                is_wanted = request == self._request
                if is_wanted:
                    self._work = work
            if not is_wanted:
                work.stop()
            return work
        finally:
            with self._condition:
                self._starting -= 1
                self._condition.notify_all()

    def _handle_event(self, request: int, event: Event) -> None:
        if request != self._request:
            return
        match event:
            case Phase():
                self.activity = event.detail
            case Forecast():
                self.forecast, self._forecast_inputs = event, self._inputs
            case Failed():
                self.failed = event
            case Stopped():
                self.failed = Failed("program", "The count was ended from outside")
        self._notify()

    def _finish(self, request: int) -> None:
        if request == self._request:
            self._work, self.is_working = None, False
            self._notify()

    def _fail(self, request: int, error: Exception) -> None:
        """The job could not even be started, as where there are too many processes."""
        if not isinstance(error, OSError):
            raise error
        if request == self._request:
            self.failed = Failed("program", f"The count could not be started: {error}")
        self._finish(request)

    def _notify(self) -> None:
        self.revision += 1
        for listener in self._listeners:
            listener()


def start_job(config: TrainConfig) -> ForecastJob:
    """Starts the job that counts."""
    # Loaded late: nothing of it is needed by a window that only opens.
    from onetrainer.jobs.job import Job
    from onetrainer.jobs.plan_request import PlanRequest

    return Job("plan", PlanRequest(config=config))


def _call(heard: Callable[[int, Event], None], request: int, event: Event) -> Callable[[], None]:
    return lambda: heard(request, event)


def _memory_settings(draft: Draft) -> Document:
    return {key: part for key, part in draft.document.items() if key not in _WITHOUT_MEMORY}
