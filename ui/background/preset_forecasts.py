"""Forecasts of presets, computed by a job when they are asked for, and remembered.

The time of a step of the built-in ones follows from the speed of this computer, measured once.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.presets.forecasts import (
    PresetForecast,
    forecast_config,
    known_forecasts,
    known_speed,
    remember_forecast,
)
from onetrainer.presets.presets import load_document
from onetrainer.run.events import Forecast
from ui.background.background_query import CancelToken
from ui.background.forecaster import (
    BeginJob,
    follow_forecast,
    start_peak_job,
    start_speed_job,
)
from ui.background.threads import Jobs


class PresetForecasts:
    """One forecast at a time.

    Attributes:
        known: What is known, by the digest of the settings.
        digest: Of the preset that is being forecast; "" if none is.
        is_measuring: Whether the speed of this computer is being measured.
        failed: Why the last one failed, by the digest of the settings.
    """

    def __init__(
        self,
        jobs: Jobs,
        changed: Callable[[], None],
        begin: BeginJob = start_peak_job,
        begin_measuring: BeginJob = start_speed_job,
    ) -> None:
        self._jobs = jobs
        self._changed = changed
        self._begin, self._begin_measuring = begin, begin_measuring
        self._has_measured = False
        self._token: CancelToken[Forecast] | None = None
        self.known: Mapping[str, PresetForecast] = known_forecasts()
        self.digest, self.is_measuring = "", False
        self.failed: dict[str, UserError] = {}
        jobs.on_close.append(self.stop)

    def start(self, path: Path, digest: str) -> None:
        """Forecast a preset in place of the one before it."""
        self.stop()
        token: CancelToken[Forecast] = CancelToken(lambda *_: None)
        self._token, self.digest = token, digest
        self.failed.pop(digest, None)

        def work() -> Mapping[str, PresetForecast]:
            config = forecast_config(load_document(path), source=str(path))
            found = follow_forecast(self._begin, config, token)
            seconds = float(found.time.get("seconds", 0.0))
            with suppress(OSError):  # what cannot be remembered is forecast again next time
                remember_forecast(digest, PresetForecast(found.peak_bytes, seconds, found.device))
            return known_forecasts()

        self._jobs.run(work, partial(self._take, token), partial(self._fail, token, digest))
        self._changed()

    def measure(self) -> None:
        """Read again what is known; measure this computer if its speed is not, once a window."""
        self.known = known_forecasts()
        if known_speed() is not None or self._has_measured or self._token is not None:
            return
        self._has_measured = self.is_measuring = True
        token: CancelToken[Forecast] = CancelToken(lambda *_: None)
        self._token = token

        def work() -> Mapping[str, PresetForecast]:
            config = forecast_config({"hardware": {"precision": "bf16"}}, source="")
            follow_forecast(self._begin_measuring, config, token)
            return known_forecasts()

        self._jobs.run(work, partial(self._take, token), partial(self._fail, token, ""))

    def stop(self) -> None:
        """Stop the forecast that is being made, or the measuring."""
        if self._token is not None:
            self._token.cancel()
            self._has_measured = self._has_measured and not self.is_measuring
            self._end()

    def _end(self) -> None:
        self._token, self.digest, self.is_measuring = None, "", False

    def _take(self, token: CancelToken[Forecast], known: Mapping[str, PresetForecast]) -> None:
        if token is self._token:
            self.known = known
            self._end()
            self._changed()

    def _fail(self, token: CancelToken[Forecast], digest: str, error: Exception) -> None:
        if token is not self._token:
            return
        self._end()
        if not isinstance(error, UserError):
            raise error
        if digest:  # nobody asked for the measuring
            self.failed[digest] = error
        self._changed()
