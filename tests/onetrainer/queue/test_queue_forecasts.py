"""What waits is forecast once, as it will run."""

import signal

import pytest

from onetrainer.jobs.job import Job
from onetrainer.presets.presets import resolve
from onetrainer.queue.forecast import forecast_missing, seconds_of_config
from onetrainer.queue.freeze import change_device
from onetrainer.queue.queue import Queue
from onetrainer.queue.times import seconds_to_end
from onetrainer.run.run_folder import create_run
from tests.runs import DEADLINE


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path / "queue")


def test_what_waits_is_forecast_once_and_values_that_change_no_length_share_one(queue, tmp_path):
    values = [(5, 1e-4), (5, 3e-4), (20, 1e-4)]
    documents = [{"training": {"steps": s}, "optimizer": {"lr": r}} for s, r in values]
    configs = [resolve(one, source="a test").model_dump(mode="json") for one in documents]
    folders = [
        create_run(tmp_path / "runs", name="run", config=one) for one in (*configs, {"x": 1})
    ]
    queue.add(folders)
    asked, tried = [], set()

    def seconds_of(config):
        asked.append(config.training.steps)
        return config.training.steps * 2.0

    found = [seconds for _, seconds in forecast_missing(queue, tried, seconds_of)]
    assert (found, asked) == ([10.0, 10.0, 40.0], [5, 20])
    assert [entry.seconds for entry in queue.read().waiting] == [10.0, 10.0, 40.0, 0.0]
    assert list(forecast_missing(queue, tried, seconds_of)) == []
    assert seconds_to_end(queue.read())[str(folders[2].path)] == 60.0


def test_what_moves_to_another_device_while_it_is_forecast_is_forecast_anew(queue, tmp_path):
    config = resolve({}, source="a test").model_dump(mode="json")
    run = create_run(tmp_path / "runs", name="run", config=config)
    queue.add([run])
    tried = set()

    def seconds_of(config):
        if config.hardware.device == "auto":
            change_device(queue, run.path, "cuda:1")
            return 10.0
        return 20.0

    assert list(forecast_missing(queue, tried, seconds_of)) == []
    assert [entry.seconds for entry in queue.read().waiting] == [0.0]
    assert [seconds for _, seconds in forecast_missing(queue, tried, seconds_of)] == [20.0]


def test_the_process_that_forecasts_ends_with_an_interrupt(monkeypatch):
    def interrupted(job):
        started.append(job._process)
        with job._process.stdout:
            raise KeyboardInterrupt

    started = []
    monkeypatch.setattr(Job, "events", interrupted)
    with pytest.raises(KeyboardInterrupt):
        seconds_of_config(resolve({}, source="a test"))
    assert started[0].wait(DEADLINE) == -signal.SIGTERM
