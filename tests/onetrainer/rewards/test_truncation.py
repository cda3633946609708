"""How many steps a reward's gradient goes through, against the definition of each distribution."""

from collections import Counter
from itertools import pairwise

import pytest

from onetrainer.rewards import truncation
from tests.each import each

# Midpoints: as many in every interval of a twentieth, a seventh or a third of them.
COUNT = 4200
CHANCES = [(n + 0.5) / COUNT for n in range(COUNT)]


def test_a_range_of_fractions_means_the_same_of_few_steps_and_of_many():
    for steps in (5, 10, 50):
        sampled = [truncation.last_steps(c, steps=steps, least=0.2, most=0.6) for c in CHANCES]
        assert min(sampled) == 0.2 * steps + 1
        assert max(sampled) == 0.6 * steps
        assert sum(sampled) / COUNT == pytest.approx(0.4 * steps + 0.5)


def test_of_all_fractions_each_number_of_last_steps_is_as_likely_and_a_fraction_alone_is_exact():
    sampled = Counter(
        truncation.last_steps(chance, steps=20, least=0, most=1) for chance in CHANCES
    )
    assert sampled == dict.fromkeys(range(1, 21), COUNT / 20)
    for fraction, steps, expected in ((0, 7, 1), (0.1, 30, 3), (1, 7, 7)):
        for chance in (0.0, 0.999):
            found = truncation.last_steps(chance, steps=steps, least=fraction, most=fraction)
            assert found == expected


RANGES = [(0.0, 1.0), (0.13, 0.77), (0.9, 1.0), (0.3, 0.3), (1.0, 1.0)]


@each("steps", [1, 7, 30])
@each(("low", "high"), RANGES)
def test_means_are_those_of_the_samples(steps, low, high):
    last = [truncation.last_steps(c, steps=steps, least=low, most=high) for c in CHANCES]
    mean = truncation.mean_last_steps(steps=steps, least=low, most=high)
    assert mean == pytest.approx(sum(last) / COUNT, abs=0.01)
    late = [truncation.late_step(c, steps=steps, earliest=low, latest=high) for c in CHANCES]
    mean = truncation.mean_late_step(steps=steps, earliest=low, latest=high)
    assert mean == pytest.approx(sum(late) / COUNT, abs=0.01)
    assert all(0 <= number < steps for number in late)


def test_a_late_step_is_any_of_those_in_the_range():
    sampled = Counter(
        truncation.late_step(chance, steps=20, earliest=0.75, latest=1) for chance in CHANCES
    )
    assert sampled == dict.fromkeys(range(15, 20), COUNT / 5)


def test_an_early_end_leaves_out_as_many_steps_as_any_up_to_its_fraction():
    sampled = Counter(truncation.early_calls(c, steps=10, fraction=0.3) for c in CHANCES)
    assert sampled == dict.fromkeys((7, 8, 9, 10), COUNT / 4)
    assert truncation.mean_early_calls(steps=10, fraction=0.3) == 8.5
    assert {truncation.early_calls(c, steps=10, fraction=0) for c in CHANCES} == {10}


def test_spread_steps_are_evenly_apart_and_reach_every_step_as_often():
    sampled = [truncation.spread_steps(chance, calls=20, count=5) for chance in CHANCES]
    assert {tuple(b - a for a, b in pairwise(each)) for each in sampled} == {(4, 4, 4, 4)}
    often = Counter(number for each in sampled for number in each)
    assert often == dict.fromkeys(range(20), COUNT * 5 / 20)


def test_of_fewer_steps_than_are_to_be_trained_all_are():
    assert truncation.spread_steps(0.9, calls=3, count=5) == (0, 1, 2)
    mean = truncation.mean_spread_steps(steps=6, fraction=0.5, count=5)
    assert mean == (5 + 5 + 4 + 3) / 4
