"""Steps that are finite and look wrong: what is reported, how often, and what never is."""

import random

import pytest

from onetrainer.metrics.watch import MOST_WARNINGS, WINDOW, Watch
from onetrainer.run.events import Progress
from tests.each import each


def watched(steps, *, warmup=0, full_lr=lambda _: 1e-4, d0=None):
    """The warnings about steps, each a loss or a mapping of what else is known of it."""
    warnings = []
    watch = Watch(warnings.append, warmup, full_lr, d0)
    for number, known in enumerate(steps, start=1):
        known = known if isinstance(known, dict) else {"loss": known}
        unchanged = known.pop("unchanged", None)
        values = {"loss": 0.1, "lr": full_lr(number - 1)} | known
        watch.take(Progress(number, len(steps), 0, **values), unchanged=unchanged)
    return warnings


def lognormal(seed, count, deviation):
    draw = random.Random(seed)
    return [0.1 * draw.lognormvariate(0, deviation) for _ in range(count)]


@each("deviation", [0.05, 0.3, 0.8, 1.2])
def test_losses_that_vary_as_usual_are_never_spikes(deviation):
    for seed in range(5):
        assert watched(lognormal(seed, 1000, deviation)) == []


@each("what", ["loss", "gradient_norm"])
def test_a_spike_is_reported_with_its_step_and_size(what):
    values = lognormal(1, 60, 0.3)
    values[50] = 5.0
    (warning,) = watched([{what: value} for value in values])
    assert warning.startswith(f"step 51: the {what.replace('_', ' ')} is 5, ")
    assert 40 < float(warning.split(", ")[1].split(" ")[0]) < 60


def test_a_few_spikes_are_reported_and_the_first_steps_never():
    early = lognormal(2, 19, 0.1)
    assert watched([*early[:10], 9.0, *early[10:]]) == []
    assert len(watched([*early, 0.1, *[9.0, 0.1] * 10])) == MOST_WARNINGS


def test_only_the_last_steps_say_what_is_usual():
    """20 among losses of 1; together with those of 100 before them it would be usual."""
    (warning,) = watched([*[100.0] * WINDOW, *[1.0] * WINDOW, 20.0])
    assert "20 times the median of the last 100 steps" in warning


def test_negative_losses_of_rewards_are_passed_over():
    assert watched([-1.0] * 50 + [-40.0] + [5.0]) == []


def test_a_schedule_that_has_reached_zero_is_reported_once_and_a_warm_up_not():
    (warning,) = watched([0.1] * 60, warmup=20, full_lr=lambda step: float(20 <= step < 30))
    assert warning.startswith("the learning rate is 0 since step 31")
    assert watched([0.1] * 20, warmup=20, full_lr=lambda _: 0.0) == []
    # The usual end of a cosine.
    assert watched([0.1] * 60, full_lr=lambda step: float(step < 55)) == []


def test_an_estimated_rate_that_stays_at_its_start_is_reported_and_one_that_has_grown_not():
    stuck, grown = [{"lr": 1e-6}] * 300, [{"lr": 1e-6}] * 50 + [{"lr": 1e-5}] * 250
    (warning,) = watched(stuck, full_lr=lambda _: 1.0, d0=1e-6)
    assert "has not grown from 1e-06 in 100 steps" in warning
    assert watched(grown, full_lr=lambda _: 1.0, d0=1e-6) == []
    assert watched(grown[60:], full_lr=lambda _: 1.0, d0=1e-6) == []  # resumed


@pytest.mark.parametrize(
    ("fractions", "count"), [([0.99] * 8, 1), ([0.99, 0.99, 0.99, 0.5] * 3, 0), ([0.9] * 9, 0)]
)
def test_updates_that_round_away_in_several_samples_are_reported_once(fractions, count):
    warnings = watched([{"unchanged": fraction} for fraction in fractions])
    assert len(warnings) == count
    assert all("stochastic rounding" in warning for warning in warnings)
