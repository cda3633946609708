"""How long runs and jobs that wait will take, found out one after the other."""

import json
from collections.abc import Callable, Iterator
from statistics import fmean

from onetrainer.captioning.results import JobFolder, job_request
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.jobs.job import Job
from onetrainer.jobs.plan_request import PlanRequest
from onetrainer.presets.presets import load_document, resolve, with_value
from onetrainer.queue.queue import Entry, Queue
from onetrainer.run.events import Forecast
from onetrainer.run.job_folders import jobs_folder
from onetrainer.run.run_folder import RunFolder

# Settings, often swept over, that change no length: their runs share one forecast.
_WITHOUT_TIME = ("output.name", "output.folder", "training.seed", "optimizer.lr")
_MOST_RESULTS = 200


def seconds_of_config(config: TrainConfig) -> float:
    """Return how long a run is forecast to take, by a process of its own; 0 if unknown."""
    # Imported late to keep the start of the window fast.
    from onetrainer.cache.run_entries import open_image_index
    from onetrainer.preview.dataset_preview import known_steps_of, preview_dataset

    try:
        with open_image_index(config) as headers:
            preview = preview_dataset(config, headers=headers)
    except UserError:  # the images may come later
        preview = None
    steps = dict(known_steps_of(config, preview))
    seconds = 0.0
    job = Job("plan", PlanRequest(config=config, steps=steps, fixes=False))
    try:
        for event in job.events():
            if isinstance(event, Forecast):
                seconds = float(event.time.get("run_seconds", 0.0))
    except BaseException:  # Ctrl+C, which does not reach the process
        job.stop()
        raise
    return seconds


def forecast_missing(
    queue: Queue, tried: set[str], seconds_of: Callable[[TrainConfig], float] = seconds_of_config
) -> Iterator[tuple[Entry, float]]:
    """Forecast what waits without a forecast, note it in the queue, and yield it.

    Args:
        queue: The queue.
        tried: The folders of those that were tried; they are added to it, and none is tried twice,
            unless it has changed meanwhile.
        seconds_of: Forecasts a run; called once for those that differ in no length.
    """
    known: dict[str, float] = {}
    for entry in queue.read().waiting:
        if entry.seconds or entry.run in tried:
            continue
        tried.add(entry.run)
        try:
            if entry.job:
                seconds = _seconds_of_job(entry)
            else:
                config = resolve(load_document(entry.folder.config, goes_on=True), source=entry.run)
                key = _without_same_time(config)
                known[key] = seconds = known[key] if key in known else seconds_of(config)
        except (UserError, OSError):  # which the run itself reports
            continue
        if seconds and not queue.note_seconds(entry, seconds):
            tried.discard(entry.run)
            continue
        yield entry, seconds


def seconds_of_images(job: JobFolder, count: int) -> float:
    """Return how long a model takes for so many images, by those it has described; 0 if unknown.

    By those of this folder, or else of another one with the same model.
    """
    seconds = _seconds_per_image(job)
    for path in sorted(jobs_folder().glob("*/")) if not seconds else ():
        request = job_request(RunFolder(path))
        if request is not None and (request.model, request.makes, request.device) == (
            job.request.model,
            job.request.makes,
            job.request.device,
        ):
            seconds = _seconds_per_image(JobFolder(request)) or seconds
    return seconds * count


def _without_same_time(config: TrainConfig) -> str:
    """Return a text that is the same for configs whose runs take equally long."""
    values = config.model_dump(mode="json")
    for path in _WITHOUT_TIME:
        values = with_value(values, path, None)
    return json.dumps(values, sort_keys=True)


def _seconds_of_job(entry: Entry) -> float:
    request = job_request(entry.folder)
    if request is None:
        return 0.0
    job = JobFolder(request)
    return seconds_of_images(job, len(job.missing()))


def _seconds_per_image(job: JobFolder) -> float:
    found = [result.seconds for result in job.read().values() if result.seconds]
    return fmean(found[-_MOST_RESULTS:]) if found else 0.0
