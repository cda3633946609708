"""Forecasts of presets: made when asked for, remembered, and stopped."""

import pytest

from onetrainer.presets.find import locate
from onetrainer.presets.forecasts import known_forecasts
from onetrainer.run.events import Failed, Finished, Forecast
from tests.ui.background.test_forecaster import FakeWork
from tests.ui.pumping import deliver_until
from ui.background.preset_forecasts import PresetForecasts

SMALL = Forecast({"training": {"unet": 5}}, "training", 5, 9, time={"seconds": 2.5}, device="card")


@pytest.fixture
def work():
    return FakeWork()


@pytest.fixture
def forecasts(home, jobs, work):
    made = PresetForecasts(jobs, lambda: None, lambda *_: work)
    made.start(locate("sd15/lora"), "digest")
    return made


def test_a_forecast_is_remembered_for_the_next_window(forecasts, jobs, work):
    assert forecasts.digest == "digest"
    work.report(SMALL, Finished(0, []), None)
    deliver_until(jobs, lambda: not forecasts.digest)
    for known in (forecasts.known, known_forecasts()):
        one = known["digest"]
        assert (one.peak_bytes, one.seconds, one.device) == (5, 2.5, "card")


def test_the_speed_of_this_computer_is_measured_once_and_times_the_shipped_presets(home, jobs):
    works = [FakeWork(), FakeWork()]
    begun = iter(works)
    forecasts = PresetForecasts(jobs, lambda: None, begin_measuring=lambda *_: next(begun))
    assert not any(one.seconds for one in forecasts.known.values())
    forecasts.measure()
    forecasts.measure()  # goes on with the one that is being made
    assert forecasts.is_measuring
    speed = {"flops": {"product bfloat16": 1e12}, "bytes_per_second": 1e11, "call_seconds": 1e-5}
    works[0].report(Forecast({}, "", 0, device="card", speed=speed), Finished(0, []), None)
    deliver_until(jobs, lambda: not forecasts.is_measuring)
    assert {one.timed_on for one in forecasts.known.values() if one.seconds} == {"card"}
    assert sum(one.seconds > 0 for one in forecasts.known.values()) > 50
    later = PresetForecasts(jobs, lambda: None, begin_measuring=lambda *_: next(begun))
    later.measure()
    assert (later.is_measuring, next(begun)) == (False, works[1])


def test_a_failure_is_kept_until_the_next_try(forecasts, jobs, work):
    work.report(Failed("user", "no such optimizer"), None)
    deliver_until(jobs, lambda: not forecasts.digest)
    assert forecasts.failed["digest"].what == "no such optimizer"
    assert "digest" not in forecasts.known
    forecasts.start(locate("sd15/lora"), "digest")
    assert not forecasts.failed


def test_another_forecast_and_the_end_of_the_window_stop_one(forecasts, jobs, work):
    deliver_until(jobs, lambda: forecasts._token._started is not None)
    jobs.forget()
    assert (work.is_stopped, forecasts.digest) == (True, "")


def test_a_measuring_that_was_stopped_is_made_later_and_one_that_failed_is_not(home, jobs, work):
    first = FakeWork()
    works = [first]
    forecasts = PresetForecasts(jobs, lambda: None, lambda *_: FakeWork(), lambda *_: works[-1])
    forecasts.measure()
    deliver_until(jobs, lambda: forecasts._token._started is first)
    forecasts.start(locate("sd15/lora"), "digest")
    forecasts.stop()
    works.append(work)
    forecasts.measure()
    assert (first.is_stopped, forecasts.is_measuring) == (True, True)
    work.report(Failed("user", "no device"), None)
    deliver_until(jobs, lambda: not forecasts.is_measuring)
    forecasts.measure()
    assert (forecasts.is_measuring, forecasts.failed) == (False, {})


def test_what_breaks_off_is_over(home, jobs):
    def begin(*_):
        raise ZeroDivisionError

    forecasts = PresetForecasts(jobs, lambda: None, begin)
    forecasts.start(locate("sd15/lora"), "digest")
    with pytest.raises(ZeroDivisionError):
        deliver_until(jobs, lambda: not forecasts.digest)
    assert forecasts.digest == ""
