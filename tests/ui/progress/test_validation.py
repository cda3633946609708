"""What the window makes of validations: the best, the change, noise levels and concepts."""

import math
from dataclasses import replace

import pytest

from onetrainer.run.events import Validated
from ui.charts.panel import padded_range, tick_labels
from ui.progress.curve import ticks
from ui.progress.validation import Validation, facts, format_change, with_band


def validated(step, loss, **details):
    known = {"error": 0.002, "images": 8, "best_step": step, "is_best": True}
    return Validated(step, loss, verdict="flat", message="text", **{**known, **details})


def reported(*events):
    validation = Validation()
    for event in events:
        validation.add(event)
    return validation


def test_one_of_the_same_step_takes_the_place_of_the_other():
    validation = reported(validated(0, 0.3), validated(20, 0.2), validated(20, 0.25))
    assert [(one.step, one.loss) for one in validation.events] == [(0, 0.3), (20, 0.25)]
    assert validation.newest.loss == 0.25


def test_the_best_is_the_one_that_the_newest_names():
    validation = reported(
        validated(0, 0.3), validated(10, 0.1), validated(20, 0.2, best_step=10, is_best=False)
    )
    assert validation.best.step == 10
    assert ("Lowest", "step 10 · 0.1000", "text") in facts(validation)


def test_weights_of_the_last_step_are_kept_next_to_their_average():
    validation = reported(validated(10, 0.2), validated(10, 0.22, weights="without_ema"))
    assert (validation.newest.loss, validation.newest_without_ema.loss) == (0.2, 0.22)
    assert ("Without EMA", "0.2200 ± 0.0020", "text") in facts(validation)
    validation.add(validated(20, 0.1))
    assert validation.newest_without_ema is None


def test_a_change_is_good_or_bad_only_beyond_its_band():
    for change, tone in [(-0.003, "good"), (-0.0005, "text"), (0.003, "warning")]:
        validation = reported(validated(5, 0.2, since_start=change, since_start_error=0.001))
        sign = "−" if change < 0 else "+"
        words = ("Since the start", f"{sign}{abs(change):.4f} ± 0.0010", tone)
        assert words in facts(validation), (change, tone)


def test_concepts_are_reported_worst_first_and_a_few_at_most():
    start = validated(0, 0.2, by_concept={"a": 0.2, "": 0.4, "c": 0.1, "d": 0.1, "e": 0.3})
    now = validated(9, 0.2, by_concept={"a": 0.1, "": 0.5, "c": 0.3, "d": 0.2, "e": 0.05})
    changes, left_out = reported(start, now).by_concept()
    assert [one.name for one in changes] == ["(no subfolder)", "c", "d", "a"]
    assert left_out == 1
    assert [one.change for one in changes] == pytest.approx([0.25, 2.0, 1.0, -0.5])


def test_a_concept_is_sure_to_have_changed_only_beyond_its_band():
    bands = {
        "a": {"loss": 0.2, "error": 0.03, "since_start": -0.05, "since_start_error": 0.04},
        "b": {"loss": 0.1, "error": 0.02, "since_start": 0.01, "since_start_error": 0.04},
        "c": {"loss": 0.05, "error": None, "since_start": 0.01, "since_start_error": None},
    }
    now = validated(9, 0.15, by_concept={"a": 0.2, "b": 0.1, "c": 0.05}, concepts=bands)
    changes, _ = reported(validated(0, 0.2), now).by_concept()
    assert [one.is_sure for one in changes] == [True, False, False]
    assert [one.error for one in changes] == [0.03, 0.02, 0.0]
    assert [one.change for one in changes] == pytest.approx([-0.2, 1 / 9, 0.25])


def test_a_change_without_a_band_is_never_sure():
    start = validated(0, 0.2, by_concept={"a": 0.4, "b": 0.2}, by_level=[0.4, 0.2])
    now = validated(9, 0.2, by_concept={"a": 0.1, "b": 0.1}, by_level=[0.1, 0.1])
    validation = reported(start, now)
    assert not any(one.is_sure for one in [*validation.by_concept()[0], *validation.by_level()])


def test_a_first_validation_forgets_what_was_measured_in_another_way():
    validation = reported(
        validated(0, 0.3), validated(0, 0.3, weights="without_ema"), validated(20, 0.2)
    )
    validation.add(replace(validated(20, 0.5), verdict="first"))
    assert [one.loss for one in validation.events] == [0.5]
    assert [one.loss for one in validation.without_ema] == [
        0.3
    ]  # these are compared with themselves


def test_few_noise_levels_are_reported_as_they_are():
    changes = reported(validated(0, 0.2, by_level=[0.4, 0.2, 0.1, 0.1])).by_level()
    assert [one.name for one in changes] == ["0-25 %", "25-50 %", "50-75 %", "75-100 %"]
    assert [one.loss for one in changes] == [0.4, 0.2, 0.1, 0.1]
    assert [one.change for one in changes] == [None] * 4


def test_the_change_of_a_noise_level_is_since_the_first_validation():
    first, second = (
        validated(0, 0.2, by_level=[0.4, 0.2]),
        validated(9, 0.2, by_level=[0.3, 0.25]),
    )
    assert [one.change for one in reported(first, second).by_level()] == pytest.approx(
        [-0.25, 0.25]
    )


def test_figures_are_shown_as_people_write_them():
    assert with_band(0.13912, 0.00212) == "0.1391 ± 0.0021"
    assert with_band(0.13912, 0.0) == "0.1391"  # of a single image there is no band
    assert [format_change(change) for change in (None, -0.0312, 0.1)] == ["", "−3.1 %", "+10.0 %"]


def test_numbers_of_an_axis_are_reported_apart():
    assert tick_labels([0.138, 0.14, 0.142]) == ["0.138", "0.140", "0.142"]
    assert tick_labels([10.0, 20.0]) == ["10", "20"]
    assert tick_labels([0.25]) == ["0.25"]
    assert tick_labels(ticks(1e-13, 3e-13, 2)) == ["1e-13", "2e-13", "3e-13"]


def test_an_axis_of_values_that_differ_by_rounding_alone_has_one_number():
    assert tick_labels(ticks(7.0, 7.0 + 1e-15, 5)) == ["7"]


def test_a_range_of_values_has_room_around_it():
    assert padded_range([0.2, 0.3, math.nan], 0.1) == pytest.approx((0.19, 0.31))
    assert padded_range([0.4, 0.4], 0.1) == pytest.approx((0.38, 0.42))
