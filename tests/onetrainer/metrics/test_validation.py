"""Means, bands and verdicts of validation losses, against tables, numpy and what was put in."""

import math

import numpy as np
import pytest

from onetrainer.metrics.bands import (
    Measurement,
    band,
    difference,
    student_quantile,
    without_gain,
)
from onetrainer.metrics.validation import by_level, judge
from tests.close import FLOAT64, near
from tests.each import each

# Abramowitz & Stegun 1964, table 26.10, with more digits by R 4.3's qt(0.975, df).
QUANTILES = {
    1: 12.706204736432095, 2: 4.302652729911275, 3: 3.182446305284263, 4: 2.776445105197799,
    5: 2.570581835636314, 10: 2.228138851964939, 30: 2.042272456301238, 100: 1.983971518523552,
    1000: 1.962339080884074,
}  # fmt: skip
DIGITS = 2**22
"""Roundings: nine digits, to which a quantile is searched."""


def measured(step, *means, spread=0.01, noises=1):
    """Images of these losses, each with four values around it."""
    around = [-3 * spread, -spread, spread, 3 * spread]
    losses = {f"{n}.png": [mean + one for one in around] for n, mean in enumerate(means)}
    return Measurement(step, losses, noises)


def history(*rows):
    return [measured(100 * number, *row) for number, row in enumerate(rows)]


def test_the_quantiles_are_those_of_the_table_and_of_closed_forms():
    """Of one degree it is tan(π p / 2), of two p √(2 / (1 - p²))."""
    found = {degrees: student_quantile(degrees) for degrees in QUANTILES}
    assert found == near(QUANTILES, eps=FLOAT64, roundings=DIGITS)
    for count in (2, 20, 1000):
        probability = 1 - 0.05 / count
        tangent = math.tan(math.pi * probability / 2)
        assert student_quantile(1, probability) == near(tangent, eps=FLOAT64, roundings=DIGITS)
        two = probability * math.sqrt(2 / ((1 - probability) * (1 + probability)))
        assert student_quantile(2, probability) == near(two, eps=FLOAT64, roundings=DIGITS)


def test_a_band_holds_the_true_mean_in_95_of_100_samples():
    samples = np.random.default_rng(0).normal(2.0, 0.5, size=(4000, 5))
    inside = np.mean([abs(one.mean - 2.0) < one.error for one in map(band, samples.tolist())])
    assert inside == pytest.approx(0.95, abs=0.012)  # 3.5 standard deviations of the count


def test_each_images_values_are_averaged_before_the_band():
    found = judge([measured(0, 0.1, 0.2, 0.6, spread=0.04)])
    expected = QUANTILES[2] * np.std([0.1, 0.2, 0.6], ddof=1) / 3**0.5
    assert (found.loss, found.error) == pytest.approx((0.3, expected))


def test_differences_are_paired_so_that_hard_images_hide_nothing():
    before, after = measured(0, 0.1, 0.5, 0.9), measured(1, 0.09, 0.488, 0.891)
    found = difference(after, before)
    changes = [-0.01, -0.012, -0.009]
    assert found.mean == pytest.approx(np.mean(changes))
    assert found.error == pytest.approx(QUANTILES[2] * np.std(changes, ddof=1) / 3**0.5)
    assert found.is_below_zero
    assert after.band.error > 0.9  # unpaired, nothing could be decided


def test_levels_are_means_over_images_and_noises():
    losses = {"cat/a": [1.0, 3.0, 5.0, 7.0], "dog/b": [3.0, 5.0, 7.0, 9.0]}
    assert by_level(Measurement(0, losses, noises=2)) == [3.0, 7.0]


def test_concepts_are_judged_as_if_there_were_no_other_images():
    concepts = {"0.png": "cat", "1.png": "dog", "2.png": "cat", "3.png": "dog"}
    rows = [[0.5, 0.9, 0.7, 0.7], [0.3, 0.8, 0.6, 0.9], [0.35, 0.6, 0.62, 0.7]]
    found = judge(history(*rows), concepts=concepts)
    assert list(found.concepts) == ["cat", "dog"]
    for concept, places in (("cat", (0, 2)), ("dog", (1, 3))):
        alone = judge(history(*([row[place] for place in places] for row in rows)))
        values = found.concepts[concept]
        assert values == {name: getattr(alone, name) for name in values}
        assert found.by_concept[concept] == alone.loss
    assert found.concepts["cat"]["since_best"] == pytest.approx(0.035)  # better after the second
    assert found.concepts["dog"]["since_best"] == pytest.approx(-0.15)  # better before it
    (first,) = judge(history([0.5]), concepts={"0.png": ""}).concepts.values()
    assert first.pop("loss") == pytest.approx(0.5)
    assert list(first.values()) == [None] * 5


WORSE = [[0.20, 0.30, 0.40], [0.10, 0.19, 0.30], [0.12, 0.211, 0.32], [0.13, 0.221, 0.33]]
RISING = [[0.20, 0.30, 0.40], [0.22, 0.321, 0.419], [0.24, 0.341, 0.439]]
FOUR = [[0.3, 0.2, 0.1, 0.4], [0.2, 0.21, 0.1, 0.39], [0.21, 0.21, 0.11, 0.38]]
TWO = [[0.6, 0.2], [0.29, 0.198]]


@each(
    ("rows", "verdict", "best_step", "message"),
    [
        ([[0.2, 0.4]], "first", 0, "Validation loss 0.3 on 2 images."),
        (
            [[0.20, 0.30, 0.40], [0.19, 0.288, 0.391]],
            *("improving", 100, "Validation loss 0.29, 3.4 % below the start: still improving."),
        ),
        (
            *(WORSE[:3], "flat", 100),
            "Validation loss 0.217, 28 % below the start: worse than step 100, the best (0.197);"
            " the next one will show more.",
        ),
        (
            *(WORSE, "overfitting", 100),
            "Validation loss 0.227, 24 % below the start: clearly worse than step 100, the best"
            " (0.197): the model begins to memorize (overfitting).",
        ),
        (
            *(RISING[:2], "flat", 0),
            "Validation loss 0.32, 6.7 % above the start: worse than before training; the next one"
            " will show more.",
        ),
        (
            *(RISING, "overfitting", 0),
            "Validation loss 0.34, 13 % above the start: worse than before training, so the"
            " learning rate may be too high.",
        ),
        (
            TWO,
            *("flat", 100, "Validation loss 0.244, 39 % below the start: the best so far, but not"),
        ),
        (
            TWO[::-1],
            *("flat", 0, "Validation loss 0.4, 64 % above the start: no significant change so far"),
        ),
        (
            FOUR[:2],
            "flat",
            100,
            "Validation loss 0.225, 10.0 % below the start: the best so far, but no significant"
            " change since the start.",
        ),
        (
            FOUR,
            "flat",
            100,
            "Validation loss 0.228, 9.0 % below the start: no significant change since step 100,"
            " the best (0.225).",
        ),
    ],
)
def test_the_verdict_and_its_message(rows, verdict, best_step, message):
    found = judge(history(*rows))
    assert (found.verdict, found.best_step) == (verdict, best_step)
    assert found.is_best == (best_step == 100 * (len(rows) - 1))
    assert found.message.startswith(message)
    assert (found.since_start is None) == (len(rows) == 1)


def test_rises_that_are_not_in_a_row_are_not_overfitting():
    rows = [*WORSE[:3], [0.10, 0.192, 0.299], WORSE[3]]
    assert [judge(history(*rows[:end])).verdict for end in (3, 4, 5)] == ["flat"] * 3


def test_a_run_that_ends_above_its_start_is_not_said_to_memorize():
    above = [[0.26, 0.36, 0.461], [0.26, 0.361, 0.46]]
    found = judge(history([0.20, 0.30, 0.40], [0.19, 0.29, 0.391], *above))
    assert found.verdict == "overfitting"
    assert "worse than before training, so the learning rate may be too high" in found.message
    # Surely above the start alone: the best differs from image to image.
    assert judge(history(RISING[0], [0.05, 0.40, 0.42], *RISING[1:])).verdict == "overfitting"


def test_where_nothing_was_measured_before_training_the_message_names_the_first_step():
    rows = [measured(100 * n, 0.2 + n / 50, 0.3 + n / 50, 0.4 + n / 49) for n in (1, 2, 3)]
    assert "above that of step 100: worse than at step 100, so" in judge(rows).message


def first_overfitting(seed, rise):
    """Which of 20 validations of 10 images is called overfitting first; None if none is.

    rise: from one to the next, in standard deviations of an image's loss around its own mean.
    """
    random = np.random.default_rng(seed)
    hard = random.normal(20, 3, 10)
    rows = [hard + rise * step + random.normal(0, 1, 10) for step in range(21)]
    made = [
        Measurement(step, {str(n): [loss] for n, loss in enumerate(row.tolist())})
        for step, row in enumerate(rows)
    ]
    return next((end for end in range(2, 22) if judge(made[:end]).verdict == "overfitting"), None)


@pytest.mark.parametrize("seeds", [30, pytest.param(300, marks=pytest.mark.long)])
def test_chance_alone_is_seldom_called_overfitting(seeds):
    false = sum(first_overfitting(seed, 0.0) is not None for seed in range(seeds))
    assert false <= 0.07 * seeds


def test_a_true_rise_is_found():
    assert sum(first_overfitting(seed, 0.15) is not None for seed in range(16)) >= 13


def test_many_small_gains_are_improving_though_each_is_within_its_band():
    """The images take turns: from one to the next only one of three gets better."""
    rows = [[0.5, 0.5, 0.5]]
    for number in range(6):
        rows.append([loss - 0.02 * (number % 3 == place) for place, loss in enumerate(rows[-1])])
    verdicts = [judge(history(*rows[: end + 1])).verdict for end in range(len(rows))]
    assert verdicts == ["first", "flat", "flat", "improving", "flat", "flat", "improving"]


def test_of_one_image_the_noise_levels_are_the_pairs():
    lower = judge([measured(0, 0.3), measured(1, 0.29)])
    assert (lower.verdict, lower.error) == ("improving", 0)
    assert lower.since_start_error == near(0, eps=FLOAT64, of=1.0)
    assert lower.message.endswith("A single image says little about others.")
    mixed = Measurement(1, {"0.png": [0.1, 0.35, 0.29, 0.33]})
    assert judge([measured(0, 0.3), mixed]).verdict == "flat"
    single = [Measurement(step, {"a": [loss]}) for step, loss in enumerate((0.3, 0.1, 0.2))]
    assert (judge(single).verdict, judge(single).since_best_error) == ("flat", None)


def test_patience_counts_what_was_no_better_than_the_best():
    losses = [0.5, 0.4, 0.45, 0.4, 0.41]
    counts = [without_gain(history(*([one] for one in losses[:end]))) for end in range(6)]
    assert counts == [0, 0, 0, 1, 2, 3]  # equal is no better
