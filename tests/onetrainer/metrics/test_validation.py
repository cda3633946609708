"""Means, bands and verdicts of held-out losses, against tables, numpy and what was put in."""

import math

import numpy as np
import pytest

from onetrainer.metrics import validation
from onetrainer.metrics.validation import (
    Measurement,
    band,
    by_concept,
    by_concepts,
    by_level,
    difference,
    judge,
    student_quantile,
    without_gain,
)

# Abramowitz & Stegun 1964, table 26.10, with more digits by R 4.3's qt(0.975, df).
QUANTILES = {
    1: 12.706204736432095, 2: 4.302652729911275, 3: 3.182446305284263, 4: 2.776445105197799,
    5: 2.570581835636314, 10: 2.228138851964939, 30: 2.042272456301238, 100: 1.983971518523552,
    1000: 1.962339080884074,
}  # fmt: skip


def measured(step, *means, spread=0.01, noises=1):
    """Pictures of these losses, each with four measurements around it."""
    around = [-3 * spread, -spread, spread, 3 * spread]
    losses = {f"{n}.png": [mean + one for one in around] for n, mean in enumerate(means)}
    return Measurement(step, losses, noises)


def history(*rows):
    return [measured(100 * number, *row) for number, row in enumerate(rows)]


def test_the_quantiles_are_those_of_the_table():
    found = {degrees: student_quantile(degrees) for degrees in QUANTILES}
    assert found == pytest.approx(QUANTILES, abs=1e-9)


@pytest.mark.parametrize("count", [1, 2, 20, 1000])
def test_the_quantile_of_one_and_two_degrees_is_the_closed_form(count):
    """Of one degree it is tan(π p / 2), of two p √(2 / (1 - p²))."""
    share = 1 - 0.05 / count
    assert student_quantile(1, share) == pytest.approx(math.tan(math.pi * share / 2), rel=1e-9)
    two = share * math.sqrt(2 / ((1 - share) * (1 + share)))
    assert student_quantile(2, share) == pytest.approx(two, rel=1e-9)


def test_the_expansion_continues_the_sum():
    summed = [student_quantile(degrees) for degrees in (400, 500)]
    expanded = [validation._expanded_quantile(degrees) for degrees in (400, 500)]
    assert summed == pytest.approx(expanded, abs=1e-9)


@pytest.mark.parametrize("degrees", [1, 2, 3, 6, 7, 40])
def test_the_quantile_holds_95_percent_of_students_density(degrees):
    end = student_quantile(degrees)
    t = np.linspace(-end, end, 200_001)
    norm = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))
    density = norm / math.sqrt(degrees * math.pi) * (1 + t**2 / degrees) ** (-(degrees + 1) / 2)
    # 200,000 trapezoids of a smooth function: 1e-8 at one degree, less at more.
    assert np.trapezoid(density, t) == pytest.approx(0.95, abs=1e-8)


def test_a_band_holds_the_true_mean_in_95_of_100_samples():
    random = np.random.default_rng(0)
    samples = random.normal(2.0, 0.5, size=(4000, 5))
    bands = [band(list(row)) for row in samples]
    inside = np.mean([abs(one.mean - 2.0) < one.error for one in bands])
    assert inside == pytest.approx(0.95, abs=0.012)  # 3.5 standard deviations of the count


def test_a_band_is_the_standard_error_of_the_mean_times_the_quantile():
    values = [0.3, 0.1, 0.7, 0.2]
    found = band(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.error == pytest.approx(QUANTILES[3] * np.std(values, ddof=1) / 2)


def test_the_mean_is_over_images_whose_own_measurements_are_averaged_first():
    found = judge([measured(0, 0.1, 0.2, 0.6, spread=0.04)])
    assert found.loss.mean == pytest.approx(0.3)
    # Of the pictures alone; the spread within each does not matter.
    assert found.loss.error == pytest.approx(
        QUANTILES[2] * np.std([0.1, 0.2, 0.6], ddof=1) / 3**0.5
    )


def test_differences_are_paired_so_that_hard_images_hide_nothing():
    before, after = measured(0, 0.1, 0.5, 0.9), measured(1, 0.09, 0.488, 0.891)
    found = difference(after, before)
    changes = [-0.01, -0.012, -0.009]
    assert found.mean == pytest.approx(np.mean(changes))
    assert found.error == pytest.approx(QUANTILES[2] * np.std(changes, ddof=1) / 3**0.5)
    assert found.is_below_zero
    assert band(list(after.means.values())).error > 0.9  # unpaired, nothing could be told


def test_levels_and_concepts_are_means_of_their_cells():
    losses = {"cat/a": [1.0, 3.0, 5.0, 7.0], "dog/b": [3.0, 5.0, 7.0, 9.0]}
    made = Measurement(0, losses, noises=2)
    assert by_level(made) == [3.0, 7.0]
    assert by_concept(made, {"dog/b": "dog", "cat/a": "cat"}) == {"cat": 4.0, "dog": 6.0}


def test_concepts_are_told_as_if_there_were_no_other_images():
    concepts = {"0.png": "cat", "1.png": "dog", "2.png": "cat", "3.png": "dog"}
    rows = [[0.5, 0.9, 0.7, 0.7], [0.3, 0.8, 0.6, 0.9], [0.35, 0.6, 0.62, 0.7]]
    found = by_concepts(history(*rows), concepts)
    assert list(found) == ["cat", "dog"]
    for concept, places in (("cat", (0, 2)), ("dog", (1, 3))):
        own = [[row[place] for place in places] for row in rows]
        alone = judge(history(*own))
        assert found[concept] == {
            "loss": alone.loss.mean,
            "error": alone.loss.error,
            "since_start": alone.since_start.mean,
            "since_start_error": alone.since_start.error,
            "since_best": alone.since_best.mean,
            "since_best_error": alone.since_best.error,
        }
    assert found["cat"]["since_best"] == pytest.approx(0.035)  # better after the second
    assert found["dog"]["since_best"] == pytest.approx(-0.15)  # better before it


def test_a_concept_of_one_image_has_no_band_and_at_first_no_difference():
    (first,) = by_concepts(history([0.5]), {"0.png": ""}).values()
    assert first.pop("loss") == pytest.approx(0.5)
    assert list(first.values()) == [None] * 5


def test_the_first_is_called_first():
    found = judge(history([0.2, 0.4]))
    assert (found.verdict, found.is_best, found.best_step) == ("first", True, 0)
    assert (found.since_start, found.since_best) == (None, None)
    assert found.words == "Validation loss 0.3 on 2 images."


def test_lower_beyond_the_band_is_improving():
    found = judge(history([0.20, 0.30, 0.40], [0.19, 0.288, 0.391]))
    assert (found.verdict, found.is_best, found.best_step) == ("improving", True, 100)
    assert found.words == "Validation loss 0.29, 3.4 % below the start: still improving."


WORSE = [[0.20, 0.30, 0.40], [0.10, 0.19, 0.30], [0.12, 0.211, 0.32], [0.13, 0.221, 0.33]]


def test_higher_than_the_best_the_second_time_in_a_row_is_overfitting():
    found = judge(history(*WORSE))
    assert (found.verdict, found.is_best, found.best_step) == ("overfitting", False, 100)
    assert found.since_best.mean == pytest.approx(0.0303333, abs=1e-6)
    assert found.words == (
        "Validation loss 0.227, 24 % below the start: clearly worse than step 100, the best"
        " (0.197): the model begins to memorize (overfitting)."
    )


def test_the_first_rise_is_flat_and_told():
    found = judge(history(*WORSE[:3]))
    assert found.verdict == "flat"
    assert found.words == (
        "Validation loss 0.217, 28 % below the start: worse than step 100, the best (0.197); the"
        " next one will show more."
    )


def test_rises_that_are_not_in_a_row_are_not_overfitting():
    between = [0.10, 0.192, 0.299]
    rows = [*WORSE[:3], between, WORSE[3]]
    verdicts = [judge(history(*rows[: end + 1])).verdict for end in range(2, 5)]
    assert verdicts == ["flat", "flat", "flat"]


def test_worse_than_before_training_is_told_as_such():
    rows = [[0.20, 0.30, 0.40], [0.22, 0.321, 0.419], [0.24, 0.341, 0.439]]
    first, second = judge(history(*rows[:2])), judge(history(*rows))
    assert (first.verdict, second.verdict) == ("flat", "overfitting")
    assert first.words.endswith(
        "above the start: worse than before training; the next one will show more."
    )
    assert second.words == (
        "Validation loss 0.34, 13 % above the start: worse than before training, so the learning"
        " rate may be too high."
    )


def test_a_run_that_ends_above_its_start_is_not_said_to_memorize():
    above = [[0.26, 0.36, 0.461], [0.26, 0.361, 0.46]]
    found = judge(history([0.20, 0.30, 0.40], [0.19, 0.29, 0.391], *above))
    assert found.verdict == "overfitting"
    assert "worse than before training, so the learning rate may be too high" in found.words


def test_where_nothing_was_measured_before_training_words_name_the_first_step():
    rows = [measured(100 * n, 0.2 + n / 50, 0.3 + n / 50, 0.4 + n / 49) for n in (1, 2, 3)]
    assert "above that of step 100: worse than at step 100, so" in judge(rows).words


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [[0.6, 0.2], [0.29, 0.198]],
            "39 % below the start: the best so far, but not significantly with only 2 images.",
        ),
        (
            [[0.29, 0.198], [0.6, 0.2]],
            "64 % above the start: no significant change so far with only 2 images.",
        ),
        (
            [[0.3, 0.2, 0.1, 0.4], [0.2, 0.21, 0.1, 0.39]],
            "below the start: the best so far, but no significant change since the start.",
        ),
        (
            [[0.3, 0.2, 0.1, 0.4], [0.2, 0.21, 0.1, 0.39], [0.21, 0.21, 0.11, 0.38]],
            "9.0 % below the start: no significant change since step 100, the best (0.225).",
        ),
    ],
)
def test_a_change_that_is_not_sure_is_told_so(rows, words):
    found = judge(history(*rows))
    assert found.verdict == "flat"
    assert found.words.endswith(words)


def first_overfitting(seed, rise):
    """Which of 20 validations of 10 pictures is called overfitting first; None if none is.

    rise: from one to the next, in standard deviations of a picture's loss around its own mean.
    """
    random = np.random.default_rng(seed)
    hard = random.normal(20, 3, 10)
    rows = [hard + rise * step + random.normal(0, 1, 10) for step in range(21)]
    made = [
        Measurement(step, {str(n): [loss] for n, loss in enumerate(row.tolist())})
        for step, row in enumerate(rows)
    ]
    ends = range(2, 22)
    return next((end for end in ends if judge(made[:end]).verdict == "overfitting"), None)


@pytest.mark.parametrize("seeds", [60, pytest.param(300, marks=pytest.mark.long)])
def test_chance_alone_is_seldom_called_overfitting(seeds):
    false = sum(first_overfitting(seed, 0.0) is not None for seed in range(seeds))
    assert false <= 0.07 * seeds


def test_a_true_rise_is_found():
    found = sum(first_overfitting(seed, 0.15) is not None for seed in range(30))
    assert found >= 0.85 * 30


@pytest.mark.parametrize("change", [0.001, -0.001])
def test_a_change_within_the_band_is_flat(change):
    found = judge(history([0.20, 0.30, 0.40], [0.23 + change, 0.27 + change, 0.40 + change]))
    assert found.verdict == "flat"
    assert found.is_best == (change < 0)


def test_many_small_gains_are_improving_though_each_is_within_its_band():
    """The pictures take turns: from one to the next only one of three gets better."""
    rows = [[0.5, 0.5, 0.5]]
    for number in range(6):
        rows.append([loss - 0.02 * (number % 3 == place) for place, loss in enumerate(rows[-1])])
    verdicts = [judge(history(*rows[: end + 1])).verdict for end in range(len(rows))]
    assert verdicts == ["first", "flat", "flat", "improving", "flat", "flat", "improving"]


def test_of_one_image_the_noise_levels_are_the_pairs():
    lower = judge([measured(0, 0.3), measured(1, 0.29)])
    assert (lower.verdict, lower.loss.error) == ("improving", None)
    assert lower.since_start.error == pytest.approx(0, abs=1e-12)
    assert lower.words.endswith("A single image says little about others.")
    mixed = Measurement(1, {"0.png": [0.1, 0.35, 0.29, 0.33]})
    assert judge([measured(0, 0.3), mixed]).verdict == "flat"


def test_a_single_number_is_flat_whatever_it_does():
    made = [Measurement(step, {"a": [loss]}) for step, loss in enumerate((0.3, 0.1, 0.2))]
    assert [judge(made[:end]).verdict for end in (1, 2, 3)] == ["first", "flat", "flat"]
    assert judge(made).since_best.error is None


def test_patience_counts_what_was_no_better_than_the_best():
    losses = [0.5, 0.4, 0.45, 0.4, 0.41]
    counts = [without_gain(history(*([one] for one in losses[:end]))) for end in range(6)]
    assert counts == [0, 0, 0, 1, 2, 3]  # equal is no better
