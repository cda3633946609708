"""Schedule-free weights are shown in evaluation form, and train as if they had not been."""

import pytest
import torch

from modules.optim.exported_weights import ExportedWeights, evaluation_form
from onetrainer.config.optimizers.adam import AdamW
from onetrainer.config.optimizers.adaptive import (
    ProdigyScheduleFree,
    ScheduleFreeAdamW,
    ScheduleFreeSgd,
)
from onetrainer.config.optimizers.optimizer import missing_package
from tests.close import close
from tests.each import each
from tests.stepping import Training, equal

SECTIONS = [
    section
    for section in (
        ScheduleFreeAdamW(lr=0.01, beta1=0.8),
        ScheduleFreeSgd(lr=0.5),
        ProdigyScheduleFree(d0=1e-3),
    )
    if not missing_package(section)
]
FREE = each("section", SECTIONS)
ROUNDS = each("rounds", [False, True])


def nothing():
    """A method that wants nothing of its weights."""


def trained(section, rounds=False):
    options = {"dtype": torch.bfloat16, "rounding_seed": 7} if rounds else {}
    return Training(section, **options)


@FREE
@ROUNDS
def test_runs_with_and_without_samples_train_the_same_weights(section, rounds):
    plain, sampled = trained(section, rounds), trained(section, rounds)
    for step in range(8):
        with evaluation_form(sampled.updater):
            pass
        plain.step(step)
        sampled.step(step)
        before = sampled.snapshot()
        with evaluation_form(sampled.updater):
            assert step < 3 or not equal(sampled.snapshot(), before)
        assert equal(sampled.snapshot(), before)
    assert equal(sampled.snapshot(), plain.snapshot())


def test_the_form_is_the_ema_of_the_paper():
    # y = (1 - β) z + β x, solved for x; z is what the optimizer keeps.
    made = trained(SECTIONS[0]).run(0, 8)
    y = made.snapshot()
    z = {name: made.optimizer.state[w]["z"].clone() for name, w in made.weights.items()}
    with evaluation_form(made.updater):
        for name, x in made.snapshot().items():
            expected = (y[name].double() - 0.2 * z[name].double()) / 0.8
            close(x, expected)


@FREE
def test_the_training_form_comes_back_also_when_sampling_fails(section):
    made = trained(section).run(0, 5)
    before = made.snapshot()
    with pytest.raises(ZeroDivisionError), evaluation_form(made.updater):
        raise ZeroDivisionError
    assert equal(made.snapshot(), before)
    made.step(5)


@FREE
def test_files_of_schedule_free_optimizers_hold_the_evaluation_form(section):
    made = trained(section).run(0, 5)
    training = made.snapshot()
    with evaluation_form(made.updater):
        evaluation = made.snapshot()
    with ExportedWeights(made.updater, None, nothing).for_files():
        assert equal(made.snapshot(), evaluation)
    assert equal(made.snapshot(), training) and not equal(training, evaluation)


@FREE
def test_what_a_method_wants_of_its_weights_counts_while_they_are_an_ema(section):
    made = trained(section).run(0, 5)
    before = made.snapshot()

    def keep():
        with torch.no_grad():
            made.net.first.weight.fill_(3.0)

    shown = ExportedWeights(made.updater, None, keep)
    for form in (shown.for_samples, shown.for_files, shown.without_ema):
        with form():
            assert bool((made.net.first.weight == 3).all())
        assert equal(made.snapshot(), before)


def test_weights_that_are_no_average_are_left_alone():
    def keep():
        raise AssertionError("weights of the last step were changed")

    shown = ExportedWeights(Training(AdamW()).run(0, 3).updater, None, keep)
    for form in (shown.for_samples, shown.for_files, shown.without_ema):
        with form():
            pass


def test_with_an_ema_that_is_shown_and_the_last_weights_are_when_asked_for():
    made = Training(AdamW(lr=0.01), ema=True).run(0, 8)
    before, shown = made.snapshot(), ExportedWeights(made.updater, made.ema, nothing)
    with shown.without_ema():
        assert equal(made.snapshot(), before)
    for form in (shown.for_samples, shown.for_files):
        with form():
            assert equal(made.snapshot(), made.ema.state_dict())
    assert equal(made.snapshot(), before)
