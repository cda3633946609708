"""Forecasts of presets, computed by a job when they are asked for, and remembered."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.presets.forecasts import (
    PresetForecast,
    forecast_config,
    known_forecasts,
    remember_forecast,
)
from onetrainer.presets.presets import load_document
from onetrainer.run.events import Forecast
from ui.background.background_query import CancelToken
from ui.background.forecaster import BeginJob, follow_forecast, start_peak_job
from ui.background.threads import Jobs


class PresetForecasts:
    """One forecast at a time.

    Attributes:
        known: What is known, by the digest of the settings.
        digest: Of the preset that is being forecast; "" if none is.
        failed: Why the last one failed, by the digest of the settings.
    """

    def __init__(
        self,
        jobs: Jobs,
        changed: Callable[[], None],
        begin: BeginJob = start_peak_job,
    ) -> None:
        self._jobs = jobs
        self._changed = changed
        self._begin = begin
        self._token: CancelToken[Forecast] | None = None
        self.known: Mapping[str, PresetForecast] = known_forecasts()
        self.digest = ""
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

    def stop(self) -> None:
        """Stop the forecast that is being made."""
        if self._token is not None:
            self._token.cancel()
            self._token, self.digest = None, ""

    def _take(self, token: CancelToken[Forecast], known: Mapping[str, PresetForecast]) -> None:
        if token is self._token:
            self._token, self.digest, self.known = None, "", known
            self._changed()

    def _fail(self, token: CancelToken[Forecast], digest: str, error: Exception) -> None:
        if token is not self._token:
            return
        if not isinstance(error, UserError):
            raise error
        self._token, self.digest = None, ""
        self.failed[digest] = error
        self._changed()
