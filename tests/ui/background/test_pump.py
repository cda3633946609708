"""The timer that delivers what threads have found, and the news of a run."""

from tests.ui.pumping import pump_until
from ui.background.pump import Pump
from ui.background.session import Session


def test_a_result_that_waits_for_an_answer_stops_neither_the_timer_nor_other_results(root, jobs):
    pump = Pump(root, jobs, Session(), lambda: None)
    seen = []

    def wait_for_an_answer():
        jobs.post(lambda: seen.append("another result"))
        before = pump.ticks
        pump_until(root, lambda: pump.ticks > before + 2 and seen)
        seen.append("the answer")

    jobs.post(wait_for_an_answer)
    pump.start()
    pump_until(root, lambda: len(seen) == 2)
    assert seen == ["another result", "the answer"]
    ticks = pump.ticks
    pump_until(root, lambda: pump.ticks > ticks + 2)
    pump.stop()
    assert str(root.tk.call("after", "info")) == ""


def test_a_result_that_fails_does_not_stop_the_timer(root, jobs):
    pump = Pump(root, jobs, Session(), lambda: None)
    kept = root.report_callback_exception
    root.report_callback_exception = lambda *_: None
    jobs.post(lambda: 1 / 0)
    pump.start()
    pump_until(root, lambda: pump.ticks > 3)
    pump.stop()
    root.report_callback_exception = kept
