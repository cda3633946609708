"""Questions about the draft that are answered in threads: asked, given up, outdated."""

from queue import SimpleQueue
from threading import Event

import pytest

from onetrainer.errors import UserError
from tests.ui.desk import DEADLINE, deliver_until
from ui.background.background_query import BackgroundQuery


class Scholar:
    """Answers each question with what a test tells it to."""

    def __init__(self):
        self.asked = []
        self.answers = SimpleQueue()
        self.ended = Event()

    def __call__(self, config, watch):
        self.asked.append((config, watch))
        answer = self.answers.get()
        try:
            if isinstance(answer, Exception):
                raise answer
            if callable(answer):
                answer(watch)
            return answer
        finally:
            self.ended.set()


@pytest.fixture
def scholar():
    return Scholar()


@pytest.fixture
def inquiry(draft, jobs, scholar):
    return BackgroundQuery(draft, jobs, scholar, depends_on=("data", "training.seed"))


def ask(inquiry, jobs, scholar, answer):
    inquiry.start()
    scholar.answers.put(answer)
    deliver_until(jobs, lambda: not inquiry.is_working)


def test_an_answer_is_of_the_settings_it_was_asked_of(inquiry, jobs, scholar, draft):
    assert not inquiry.is_requested
    ask(inquiry, jobs, scholar, "yes")
    assert (inquiry.answer, inquiry.is_requested, inquiry.is_outdated) == ("yes", True, False)
    draft.set("training.steps", 7)  # which the answer does not depend on
    assert inquiry.is_requested
    draft.set("data.resolution", 128)
    assert (inquiry.is_requested, inquiry.is_outdated) == (False, True)
    draft.undo()
    assert inquiry.is_requested


def test_an_answer_is_dropped_where_the_settings_have_changed_meanwhile(
    inquiry, jobs, scholar, draft
):
    inquiry.start()
    draft.set("data.resolution", 128)
    scholar.answers.put("of before")
    deliver_until(jobs, lambda: not inquiry.is_working)
    assert (inquiry.answer, inquiry.is_requested) == (None, False)


def test_what_is_cancelled_is_reported_so_and_changes_nothing(inquiry, jobs, scholar):
    ask(inquiry, jobs, scholar, "first")
    scholar.ended.clear()
    inquiry.start()
    inquiry.stop()
    assert not inquiry.is_working
    scholar.answers.put(lambda watch: watch.raise_if_cancelled())
    assert scholar.ended.wait(DEADLINE)
    deliver_until(jobs, lambda: jobs.deliver() == 0)
    assert (inquiry.answer, inquiry.failed) == ("first", None)


def test_a_new_question_gives_the_one_under_way_up(inquiry, jobs, scholar):
    inquiry.start()
    inquiry.start()
    deliver_until(jobs, lambda: len(scholar.asked) == 2)
    # Which of the threads comes first is not said.
    assert sorted(watch.is_cancelled() for _, watch in scholar.asked) == [False, True]
    scholar.answers.put("a")
    scholar.answers.put("a")
    deliver_until(jobs, lambda: inquiry.answer == "a")


def test_it_is_reported_how_far_the_work_is(inquiry, jobs, scholar):
    heard = []
    inquiry.listen(lambda: heard.append((inquiry.done, inquiry.total)))
    ask(inquiry, jobs, scholar, lambda watch: watch.progress(5, 5))
    assert (5, 5) in heard


def test_an_error_of_the_settings_takes_the_place_of_the_answer(inquiry, jobs, scholar, draft):
    ask(inquiry, jobs, scholar, "yes")
    draft.set("data.resolution", 128)
    ask(inquiry, jobs, scholar, UserError("no such folder"))
    assert (inquiry.answer, str(inquiry.failed)) == (None, "no such folder.")
    draft.set("data.resolution", 192)
    ask(inquiry, jobs, scholar, "again")
    assert (inquiry.answer, inquiry.failed) == ("again", None)


def test_a_defect_is_not_swallowed(inquiry, jobs, scholar):
    inquiry.start()
    scholar.answers.put(ValueError("a defect"))
    with pytest.raises(ValueError, match="a defect"):
        deliver_until(jobs, lambda: not inquiry.is_working)
    assert not inquiry.is_working
    # It is told as the answer, and not asked for again and again.
    assert "a defect" in str(inquiry.failed)
    assert inquiry.is_requested
    ask(inquiry, jobs, scholar, "yes")
    assert (inquiry.answer, inquiry.failed) == ("yes", None)


def test_paths_are_absolute_and_wrong_settings_are_not_asked_about(
    inquiry, jobs, scholar, draft, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    draft.set("data.folder", "pictures")
    ask(inquiry, jobs, scholar, "yes")
    assert scholar.asked[0][0].data.folder == str(tmp_path / "pictures")
    draft.set("data.resolution", "large")
    assert inquiry.blocked_reason()
    inquiry.start()
    assert not inquiry.is_working
