"""Memory forecast of the draft, computed by a job and shared by all pages.

The job is followed in a thread; its events are handed over by `Jobs`.
"""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from onetrainer.config.train import TrainConfig
from onetrainer.json_file import Document
from onetrainer.run.events import Event, Failed, Forecast, Phase, Stopped
from ui.background.threads import Jobs
from ui.model.draft import Draft

# Sections that do not affect memory.
_WITHOUT_MEMORY = ("output", "metadata", "description")
# Far longer than starting a process takes.
_MAX_WAIT_S = 5.0


class ForecastJob(Protocol):
    """Running job."""

    def events(self) -> Iterator[Event]:
        """Yield the events of the job; the last one is its end."""

    def stop(self) -> None:
        """Ask the job to stop; a second call stops it at once."""


class Forecaster:
    """Computes one forecast at a time.

    Attributes:
        is_working: Whether a job is running.
        activity: What the job is doing.
        forecast: The newest forecast.
        failed: Why there is no forecast.
        revision: Number of changes so far.
    """

    def __init__(
        self, draft: Draft, jobs: Jobs, begin: Callable[[TrainConfig], ForecastJob]
    ) -> None:
        self._draft = draft
        self._jobs = jobs
        self._start = begin
        # Guards the state shared by the Tk thread and the threads that start jobs.
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
        """Call a function after each change."""
        self._listeners.append(listener)

    @property
    def is_outdated(self) -> bool:
        """Whether settings that may affect memory have changed since the forecast."""
        return self.forecast is not None and self._forecast_inputs != _memory_settings(self._draft)

    @property
    def is_for_processor(self) -> bool:
        """Whether the forecast is for settings that select the CPU."""
        hardware = self._forecast_inputs.get("hardware")
        return isinstance(hardware, dict) and hardware.get("device") == "cpu"

    def blocked_reason(self) -> str:
        """Return why no forecast can be computed now; "" if it can."""
        if self._draft.value_errors and self._draft.valid_config() is None:
            return "Fix the invalid settings first."
        return ""

    def start(self) -> None:
        """Start a forecast of the current settings."""
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
        """Cancel the forecast; an earlier one stays."""
        with self._condition:
            self._request += 1
            work, self._work = self._work, None
        if work is not None:
            work.stop()
        if self.is_working:
            self.is_working = False
            self._notify()

    def close(self) -> None:
        """Cancel the forecast; wait for a starting job, so that none outlives the window."""
        self.stop()
        with self._condition:
            self._condition.wait_for(lambda: not self._starting, _MAX_WAIT_S)

    def _follow(self, request: int, config: TrainConfig) -> None:
        """Start the job and hand over its events; runs in a thread."""
        for event in self._start_job(request, config).events():
            self._jobs.post(partial(self._handle_event, request, event))

    def _start_job(self, request: int, config: TrainConfig) -> ForecastJob:
        """Start the job; stop it at once if the forecast was canceled meanwhile."""
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
                self.failed = Failed("program", "The forecast was stopped from outside")
        self._notify()

    def _finish(self, request: int) -> None:
        if request == self._request:
            self._work, self.is_working = None, False
            self._notify()

    def _fail(self, request: int, error: Exception) -> None:
        """Handle a job that could not be started, for example because of too many processes."""
        if not isinstance(error, OSError):
            raise error
        if request == self._request:
            self.failed = Failed("program", f"The forecast could not be started: {error}")
        self._finish(request)

    def _notify(self) -> None:
        self.revision += 1
        for listener in self._listeners:
            listener()


def start_job(config: TrainConfig) -> ForecastJob:
    """Start the job that computes a forecast."""
    # Imported late to keep the start of the window fast.
    from onetrainer.jobs.job import Job
    from onetrainer.jobs.plan_request import PlanRequest

    return Job("plan", PlanRequest(config=config))


def _memory_settings(draft: Draft) -> Document:
    return {key: part for key, part in draft.document.items() if key not in _WITHOUT_MEMORY}
