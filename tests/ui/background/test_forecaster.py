"""The forecast of memory behind the cards: asked for, kept, outdated, given up."""

from queue import SimpleQueue
from threading import Event, Thread

import pytest

from onetrainer.run.events import Failed, Finished, Forecast, Phase, Stopped
from tests.ui.desk import deliver_until
from tests.ui.xscreen import DEADLINE
from ui.background.forecaster import Forecaster
from ui.model.draft import Draft

SMALL = Forecast({"training": {"unet": 5}}, "training", 5, 9)
CURED = Forecast({"training": {"unet": 5}}, "training", 5, 9, [{"message": "x"}])


class FakeWork:
    """Tells what a test gives it, until the test gives None."""

    def __init__(self):
        self.news = SimpleQueue()
        self.is_stopped = False

    def tell(self, *events):
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
def forecaster(home, jobs, work):
    return Forecaster(Draft(), jobs, lambda config: work)


def ask(forecaster, jobs, work, *events):
    forecaster.start()
    work.tell(*events, None)
    deliver_until(jobs, lambda: not forecaster.is_working)


def test_a_forecast_comes_first_without_its_fixes(forecaster, jobs, work):
    forecaster.start()
    work.tell(Phase("loading", detail="the text encoder"), SMALL)
    deliver_until(jobs, lambda: forecaster.forecast is not None)
    assert (forecaster.forecast, forecaster.is_working) == (SMALL, True)
    assert forecaster.activity == "the text encoder"
    work.tell(CURED, Finished(0, []), None)
    deliver_until(jobs, lambda: not forecaster.is_working)
    assert forecaster.forecast == CURED
    assert forecaster.failed is None


def test_a_changed_setting_makes_it_one_of_earlier_settings_until_it_is_undone(home, jobs, work):
    draft = Draft()
    forecaster = Forecaster(draft, jobs, lambda config: work)
    ask(forecaster, jobs, work, SMALL)
    assert not forecaster.is_outdated
    draft.set("output.name", "another")
    assert not forecaster.is_outdated  # a name takes no memory
    draft.set("training.batch_size", 7)
    assert forecaster.is_outdated
    draft.undo()
    assert not forecaster.is_outdated


def test_a_setting_changed_while_it_counts_is_noticed_too(home, jobs, work):
    draft = Draft()
    forecaster = Forecaster(draft, jobs, lambda config: work)
    forecaster.start()
    draft.set("training.batch_size", 7)
    work.tell(SMALL, None)
    deliver_until(jobs, lambda: not forecaster.is_working)
    assert forecaster.is_outdated


def test_a_failure_keeps_the_forecast_before_it_and_goes_with_the_next(forecaster, jobs, work):
    ask(forecaster, jobs, work, SMALL)
    ask(forecaster, jobs, work, Failed("user", "no size"))
    assert forecaster.failed.what == "no size"
    assert forecaster.forecast == SMALL
    ask(forecaster, jobs, work, CURED)
    assert forecaster.failed is None


def test_a_cancelled_forecast_reports_nothing_any_more(forecaster, jobs, work):
    forecaster.start()
    work.tell(SMALL)
    deliver_until(jobs, lambda: forecaster.forecast is not None)
    forecaster.stop()
    assert work.is_stopped
    work.tell(CURED, Stopped(0, "stop"), None)
    revision = forecaster.revision
    deliver_until(jobs, lambda: work.news.empty())
    jobs.deliver()
    assert (forecaster.forecast, forecaster.revision) == (SMALL, revision)
    assert not forecaster.is_working


def test_a_count_cancelled_before_it_began_is_ended_when_it_begins(home, jobs, work):
    forecaster = Forecaster(Draft(), jobs, lambda config: work)
    forecaster.start()
    forecaster.stop()
    work.tell(None)
    deliver_until(jobs, lambda: work.is_stopped)


def test_a_window_that_closes_waits_for_a_job_being_started_and_stops_it(home, jobs, work):
    is_called, may_begin = Event(), Event()

    def begin(config):
        is_called.set()
        assert may_begin.wait(DEADLINE)
        return work

    forecaster = Forecaster(Draft(), jobs, begin)
    forecaster.start()
    assert is_called.wait(DEADLINE)
    closing = Thread(target=forecaster.close)
    closing.start()
    may_begin.set()
    closing.join(DEADLINE)
    # Nothing of `jobs` is delivered any more.
    assert work.is_stopped
    work.tell(None)


def test_a_wrong_number_is_a_reason_not_to_count(home, jobs, work):
    draft = Draft()
    forecaster = Forecaster(draft, jobs, lambda config: work)
    assert forecaster.blocked_reason() == ""  # nothing is chosen yet, which takes no memory
    draft.set("training.batch_size", "none")
    assert forecaster.blocked_reason() == "Fix the invalid settings first."
    forecaster.start()
    assert not forecaster.is_working


def test_a_job_that_cannot_be_started_is_reported_with_a_message(home, jobs):
    def begin(config):
        raise OSError("too many processes")

    forecaster = Forecaster(Draft(), jobs, begin)
    forecaster.start()
    deliver_until(jobs, lambda: not forecaster.is_working)
    assert "too many processes" in forecaster.failed.what
