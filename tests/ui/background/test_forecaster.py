"""The forecast of memory behind the summary cards: asked for, kept, outdated, canceled."""

from queue import SimpleQueue
from threading import Event, Thread

import pytest

from onetrainer.run.events import Failed, Finished, Forecast, Phase, Stopped
from tests.ui.pumping import deliver_until
from tests.ui.xscreen import DEADLINE
from ui.background.forecaster import make_forecasts

SMALL = Forecast({"training": {"unet": 5}}, "training", 5, 9)
CURED = Forecast({"training": {"unet": 5}}, "training", 5, 9, [{"message": "x"}])


class FakeWork:
    """Reports what a test gives it, until the test gives None."""

    def __init__(self):
        self.news = SimpleQueue()
        self.is_stopped = False

    def report(self, *events):
        for event in events:
            self.news.put(event)

    def events(self):
        yield from iter(self.news.get, None)

    def stop(self):
        self.is_stopped = True


@pytest.fixture
def work():
    return FakeWork()


@pytest.fixture
def forecasts(home, draft, jobs, work):
    return make_forecasts(draft, jobs, lambda *_: work)


def ask(forecasts, jobs, work, *events):
    forecasts.start()
    work.report(*events, None)
    deliver_until(jobs, lambda: not forecasts.is_working)


def test_a_forecast_comes_first_without_its_fixes(forecasts, jobs, work):
    forecasts.start()
    work.report(Phase("loading", detail="the text encoder"), SMALL)
    deliver_until(jobs, lambda: forecasts.answer is not None)
    assert (forecasts.answer, forecasts.is_working) == (SMALL, True)
    assert forecasts.activity == "the text encoder"
    work.report(CURED, Finished(0, []), None)
    deliver_until(jobs, lambda: not forecasts.is_working)
    assert (forecasts.answer, forecasts.failed) == (CURED, None)


def test_a_changed_setting_makes_it_one_of_earlier_settings_until_it_is_undone(
    forecasts, jobs, work, draft
):
    ask(forecasts, jobs, work, SMALL)
    assert not forecasts.is_outdated
    draft.set("output.name", "another")
    assert not forecasts.is_outdated  # a name takes no memory
    draft.set("training.batch_size", 7)
    assert forecasts.is_outdated
    draft.undo()
    assert not forecasts.is_outdated


def test_a_failure_keeps_the_forecast_before_it_and_goes_with_the_next(forecasts, jobs, work):
    ask(forecasts, jobs, work, SMALL)
    ask(forecasts, jobs, work, Failed("user", "no size"))
    assert forecasts.failed.what == "no size"
    assert forecasts.answer == SMALL
    ask(forecasts, jobs, work, CURED)
    assert forecasts.failed is None


def test_a_count_that_is_cancelled_reports_nothing_any_more(forecasts, jobs, work):
    forecasts.start()
    work.report(SMALL)
    deliver_until(jobs, lambda: forecasts.answer is not None)
    forecasts.stop()
    assert work.is_stopped
    work.report(CURED, Stopped(0, "stop"), None)
    revision = forecasts.revision
    deliver_until(jobs, lambda: work.news.empty())
    jobs.deliver()
    assert (forecasts.answer, forecasts.revision) == (SMALL, revision)
    assert not forecasts.is_working


def test_a_window_that_closes_waits_for_a_job_being_started_and_stops_it(draft, jobs, work):
    is_called, may_begin = Event(), Event()

    def begin(*_):
        is_called.set()
        assert may_begin.wait(DEADLINE)
        return work

    make_forecasts(draft, jobs, begin).start()
    assert is_called.wait(DEADLINE)
    (close,) = jobs.on_close
    closing = Thread(target=close)
    closing.start()
    may_begin.set()
    closing.join(DEADLINE)
    # Nothing of `jobs` is delivered any more.
    assert work.is_stopped
    work.report(None)


def test_a_job_that_cannot_be_started_is_reported_in_words(draft, jobs):
    def begin(*_):
        raise OSError("too many processes")

    forecasts = make_forecasts(draft, jobs, begin)
    forecasts.start()
    deliver_until(jobs, lambda: not forecasts.is_working)
    assert "too many processes" in forecasts.failed.what
