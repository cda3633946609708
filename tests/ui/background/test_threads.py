"""Slow work in threads."""

import threading
from functools import partial

from tests.ui.pumping import deliver_until
from ui.background.threads import Jobs, OneAtATime


def test_one_is_done_at_a_time_and_only_the_last_one_asked_for_is_delivered(jobs):
    gate, begun, shown, failures = threading.Event(), [], [], []
    works = OneAtATime(jobs, shown.append, failures.append)

    def work(number):
        begun.append(number)
        assert gate.wait(60)
        if number == 5:
            raise ValueError(number)
        return number

    for number in (1, 2, 3):
        works.ask(partial(work, number))
    assert works.is_busy
    gate.set()
    deliver_until(jobs, lambda: shown)
    assert (begun, shown, works.is_busy) == ([1, 3], [3], False)
    works.ask(partial(work, 4))
    works.drop()
    deliver_until(jobs, lambda: not works.is_busy)
    works.ask(partial(work, 5))
    deliver_until(jobs, lambda: failures)
    assert (begun, shown, works.is_busy) == ([1, 3, 4, 5], [3], False)


def test_changes_are_made_one_after_the_other_also_when_nobody_waits_any_more(jobs):
    gate, made, said = threading.Event(), [], []

    def fail():
        raise ValueError("no")

    jobs.run_in_order(lambda: made.append(gate.wait(60)), said.append)
    jobs.run_in_order(fail, said.append, lambda error: said.append(str(error)))
    jobs.run_in_order(lambda: made.append("second"), said.append)
    assert made == []
    gate.set()
    deliver_until(jobs, lambda: len(said) == 3)
    assert (made, said) == ([True, "second"], [None, "no", None])
    jobs.run_in_order(lambda: made.append("last"), said.append)
    jobs.forget()  # the window is closed
    ended = []
    jobs.run_in_order(lambda: "a new window", ended.append)
    deliver_until(jobs, lambda: ended)
    assert (made[2:], len(said)) == (["last"], 3)


def test_held_work_begins_and_is_delivered_once_it_is_released():
    jobs, begun, done = Jobs(is_held=True), threading.Event(), []
    jobs.run(begun.set, done.append)
    jobs.post(lambda: done.append("posted"))
    assert jobs.deliver() == 0
    assert not begun.is_set()
    jobs.release()
    deliver_until(jobs, lambda: len(done) == 2)
    assert begun.is_set()


def test_news_of_work_whose_widgets_are_gone_are_dropped(jobs):
    gate, heard, ended = threading.Event(), [], []

    def work():
        assert gate.wait(60)
        jobs.post(lambda: heard.append("old"))
        ended.append(True)

    jobs.run(work, heard.append)
    jobs.forget()  # all widgets are made anew, at another size
    gate.set()
    deliver_until(jobs, lambda: ended)
    jobs.run(lambda: jobs.post(lambda: heard.append("new")), heard.append)
    deliver_until(jobs, lambda: len(heard) == 2)
    assert heard == ["new", None]
