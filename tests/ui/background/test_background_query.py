"""Questions about the draft that are answered in threads: asked, given up, outdated."""

from queue import SimpleQueue
from threading import Event

import pytest

from onetrainer.errors import UserError
from tests.ui.pumping import deliver_until
from tests.ui.xscreen import DEADLINE
from ui.background.background_query import BackgroundQuery


class Scholar:
    """Answers each question with what a test gives it."""

    def __init__(self):
        self.asked = []
        self.answers = SimpleQueue()
        self.ended = Event()

    def __call__(self, config, token):
        self.asked.append((config, token))
        answer = self.answers.get()
        try:
            if isinstance(answer, Exception):
                raise answer
            if callable(answer):
                answer(token)
            return answer
        finally:
            self.ended.set()


@pytest.fixture
def answers():
    return Scholar()


@pytest.fixture
def query(draft, jobs, answers):
    return BackgroundQuery(draft, jobs, answers, depends_on=("data", "training.seed"))


def ask(query, jobs, answers, answer):
    query.start()
    answers.answers.put(answer)
    deliver_until(jobs, lambda: not query.is_working)


def test_an_answer_is_of_the_settings_it_was_asked_of(query, jobs, answers, draft):
    assert not query.is_requested
    ask(query, jobs, answers, "yes")
    assert (query.answer, query.is_requested, query.is_outdated) == ("yes", True, False)
    draft.set("training.steps", 7)  # which the answer does not depend on
    assert query.is_requested
    draft.set("data.resolution", 128)
    assert (query.is_requested, query.is_outdated) == (False, True)
    draft.undo()
    assert query.is_requested


def test_an_answer_is_outdated_where_the_settings_have_changed_meanwhile(
    query, jobs, answers, draft
):
    query.start()
    draft.set("data.resolution", 128)
    answers.answers.put("of before")
    deliver_until(jobs, lambda: not query.is_working)
    assert (query.is_outdated, query.is_requested) == (True, False)


def test_what_is_cancelled_is_reported_so_and_changes_nothing(query, jobs, answers):
    ask(query, jobs, answers, "first")
    answers.ended.clear()
    query.start()
    query.stop()
    assert not query.is_working
    answers.answers.put(lambda token: token.raise_if_cancelled())
    assert answers.ended.wait(DEADLINE)
    deliver_until(jobs, lambda: jobs.deliver() == 0)
    assert (query.answer, query.failed) == ("first", None)


def test_an_error_of_the_settings_takes_the_place_of_the_answer(query, jobs, answers, draft):
    ask(query, jobs, answers, "yes")
    draft.set("data.resolution", 128)
    ask(query, jobs, answers, UserError("no such folder"))
    assert (query.answer, str(query.failed)) == (None, "no such folder.")
    draft.set("data.resolution", 192)
    ask(query, jobs, answers, "again")
    assert (query.answer, query.failed) == ("again", None)


def test_a_defect_is_not_swallowed(query, jobs, answers):
    query.start()
    answers.answers.put(ValueError("a defect"))
    with pytest.raises(ValueError, match="a defect"):
        deliver_until(jobs, lambda: not query.is_working)
    assert not query.is_working
    # It is reported as the answer, and not asked for again and again.
    assert "a defect" in str(query.failed)
    assert query.is_requested
    ask(query, jobs, answers, "yes")
    assert (query.answer, query.failed) == ("yes", None)


def test_paths_are_absolute_and_wrong_settings_are_not_asked_about(
    query, jobs, answers, draft, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    draft.set("data.folder", "pictures")
    ask(query, jobs, answers, "yes")
    assert answers.asked[0][0].data.folder == str(tmp_path / "pictures")
    draft.set("data.resolution", "large")
    assert query.blocked_reason()
    query.start()
    assert not query.is_working
