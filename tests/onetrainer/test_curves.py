"""The learning-rate curves against closed forms."""

import math

import pytest

from onetrainer.curves import lr_multiplier


def curve(kind, steps=10, warmup_steps=0):
    return [
        lr_multiplier(kind, step=step, steps=steps, warmup_steps=warmup_steps)
        for step in range(steps)
    ]


def test_constant_is_one():
    assert curve("constant") == [1.0] * 10


def test_warm_up_rises_in_a_line_from_zero():
    assert curve("constant", warmup_steps=4)[:6] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]


def test_linear_would_be_zero_in_the_step_after_the_last():
    assert curve("linear") == pytest.approx([1 - step / 10 for step in range(10)])


def test_cosine_is_half_a_cosine():
    expected = [(1 + math.cos(math.pi * step / 10)) / 2 for step in range(10)]
    assert curve("cosine") == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["constant", "linear", "cosine"])
def test_a_run_that_is_all_warm_up_divides_by_nothing(kind):
    assert curve(kind, steps=3, warmup_steps=3) == pytest.approx([0, 1 / 3, 2 / 3])
