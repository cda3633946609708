"""Arguments of code of the user's own: a line for each, with a JSON value."""

import pytest

from onetrainer.config.base.arguments import parse_arguments
from onetrainer.config.optimizers.custom import CustomOptimizer
from onetrainer.config.run.schedule import CustomSchedule
from onetrainer.config.train import TrainConfig
from onetrainer.errors import UserError
from onetrainer.rules.rules import check_rules


def test_values_are_json():
    text = 'a = 1\n b=[0.9, 0.99]\n\nmode = "x = y"\noff = null\nis_on = true'
    expected = {"a": 1, "b": (0.9, 0.99), "mode": "x = y", "off": None, "is_on": True}
    assert parse_arguments(text) == expected
    assert parse_arguments(" \n") == {}


def test_a_line_that_is_no_argument_is_named():
    for text, words in (
        ("a = 1\nb", "line 2, b: this is no argument"),
        ("a b = 1", "line 1, a b: this is no argument"),
        ("a = fast", "line 1, a: fast is not JSON"),
        ("a =", "line 1, a: it has no value"),
        ("a = 1\na = 2", "line 2, a: it is given twice"),
        ("lr = 1", "line 1, lr: the program sets it"),
    ):
        with pytest.raises(UserError, match=words):
            parse_arguments(text, given=("lr",))


def test_rules_report_missing_names_and_wrong_arguments():
    config = TrainConfig(
        optimizer=CustomOptimizer(arguments="lr = 1"), schedule=CustomSchedule(arguments="x")
    )
    found = {problem.path for problem in check_rules(config)}
    sections = ("optimizer", "schedule")
    assert {f"{s}.{name}" for s in sections for name in ("function", "arguments")} <= found
