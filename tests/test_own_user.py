"""Programs of the tests leave the user alone who starts them."""

from onetrainer import ROOT
from onetrainer.run.device_owner import owners_folder
from onetrainer.run.user_folder import user_folder
from tests.own_user import own_user

STARTED_BY_OTHERS = ("bare_start.py", "opened_window.py", "used_window.py")
"""Benchmarks that get a user's folder from those that start them."""
TRAIN_NOTHING = ("demo_check.py", "lock.py", "mutate.py", "processors.py")
"""Programs at the top that keep nothing of a user's, or run tests, which do that themselves."""


def test_each_campaign_and_benchmark_has_a_user_of_its_own():
    programs = [*(ROOT / "tests").glob("*.py"), *(ROOT / "tests/benchmarks").glob("*.py")]
    programs.append(ROOT / "tests/faults/__main__.py")
    texts = {path.name: path.read_text("utf-8") for path in programs}
    without = {
        name
        for name, text in texts.items()
        if '\nif __name__ == "__main__":' in text and "    with own_user():" not in text
    }
    assert without == {*STARTED_BY_OTHERS, *TRAIN_NOTHING}


def test_an_own_user_has_nothing_and_leaves_nothing():
    before = user_folder()
    with own_user():
        own = user_folder()
        assert own not in (before, own.parent)
        assert not own.exists()
        owners_folder().mkdir(parents=True)
    assert user_folder() == before
    assert not own.parent.exists()
