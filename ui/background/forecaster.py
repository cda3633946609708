"""Memory forecast of the draft, computed by a job and shared by all pages."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from ui.background.apart import apart
from ui.background.background_query import BackgroundQuery, CancelToken
from ui.background.dataset_preview import known_steps_now
from ui.background.threads import Jobs
from ui.model.draft import Draft

if TYPE_CHECKING:
    from onetrainer.run.events import Event, Forecast

# Sections that do not affect memory.
_WITHOUT_MEMORY = ("output", "metadata", "description")


class ForecastJob(Protocol):
    """Running job."""

    def events(self) -> Iterator["Event"]:
        """Yield the events of the job; the last one is its end."""

    def stop(self) -> None:
        """Ask the job to stop; a second call stops it at once."""


Forecasts = BackgroundQuery["Forecast"]
BeginJob = Callable[[TrainConfig, Mapping[str, int]], ForecastJob]
"""Starts the job of a config, whose lengths in epochs or images are so many steps."""


_RATE_SECTIONS = ("model", "data", "method", "embeddings", "objective", "optimizer", "hardware")
_RATE_SETTINGS = ("batch_size", "accumulation")


def forecast_seconds(forecasts: Forecasts, draft: Draft) -> float:
    """Return the forecast seconds of a step of the draft; 0 if not known."""
    inputs, training = forecasts.inputs_of_answer, forecasts.inputs_of_answer.get("training")
    if forecasts.answer is None or not isinstance(training, dict):
        return 0.0
    is_same = all(inputs.get(path) == draft.value(path) for path in _RATE_SECTIONS) and all(
        training.get(key) == draft.value(f"training.{key}") for key in _RATE_SETTINGS
    )
    return float(forecasts.answer.time.get("seconds", 0.0)) if is_same else 0.0


def start_peak_job(config: TrainConfig, steps: Mapping[str, int]) -> ForecastJob:
    """Start the job that computes a forecast without looking for what lowers the peak."""
    return start_job(config, steps, fixes=False)


def start_job(config: TrainConfig, steps: Mapping[str, int], *, fixes: bool = True) -> ForecastJob:
    """Start the job that computes a forecast.

    steps: Of lengths in other units, by their text. fixes: Whether it looks for what lowers the
    peak.
    """
    # Imported late to keep the start of the window fast.
    from onetrainer.jobs.job import Job
    from onetrainer.jobs.plan_request import PlanRequest

    return Job("plan", PlanRequest(config=config, steps=dict(steps), fixes=fixes))


def start_speed_job(config: TrainConfig, steps: Mapping[str, int]) -> ForecastJob:
    """Start the job that only measures how fast the device of a config is."""
    from onetrainer.jobs.job import Job
    from onetrainer.jobs.plan_request import PlanRequest

    return Job("plan", PlanRequest(config=config, steps=dict(steps), only_speed=True))


def make_forecasts(
    draft: Draft,
    jobs: Jobs,
    begin: BeginJob = start_job,
) -> Forecasts:
    """Return the query for the forecast of a draft's settings."""
    sections = tuple(key for key in TrainConfig.model_fields if key not in _WITHOUT_MEMORY)
    follow = partial(follow_forecast, begin)
    return BackgroundQuery(draft, jobs, follow, depends_on=sections, keeps_answer=True)


def follow_forecast(
    begin: BeginJob, config: TrainConfig, token: "CancelToken[Forecast]"
) -> "Forecast":
    """Follow a job to its end; its first forecast has no fixes yet.

    Raises UserError: There is no forecast.
    """
    # Imported late to keep the start of the window fast.
    from onetrainer.presets.forecasts import remember_speed
    from onetrainer.run.events import Failed, Forecast, Phase, Stopped

    newest: Forecast | None = None
    failed = UserError("The forecast ended without a result")
    steps = apart(known_steps_now)(config, token)
    try:
        job = token.start(lambda: begin(config, steps))
    except OSError as error:  # for example because of too many processes
        raise UserError(f"The forecast could not be started: {error}") from error
    for event in job.events():
        match event:
            case Phase():
                token.progress(event.done, event.total, event.detail)
            case Forecast():
                newest = event
                if event.speed:
                    with suppress(OSError):  # it is measured again another time
                        remember_speed(event.device, event.speed)
                token.answer(event)
            case Failed():
                newest, failed = None, UserError(event.what, event.expected, event.remedy)
            case Stopped():
                newest, failed = None, UserError("The forecast was stopped from outside")
    if newest is None:
        raise failed
    return newest
