import math
import random

import numpy as np
import pytest

from tests.close import FLOAT64, near
from ui.progress.curve import Curve, Point, smooth, thin, ticks


def test_a_long_curve_stays_bounded_and_keeps_extremes_and_mean():
    curve, values = Curve(), []
    numbers = random.Random(1)
    for step in range(1, 100_001):
        values.append(numbers.random())
        curve.append(step, values[-1])
    points = curve.points()
    assert len(points) <= 2048
    assert min(point.lowest for point in points) == min(values)
    assert max(point.highest for point in points) == max(values)
    assert sum(p.mean for p in points) / len(points) == pytest.approx(0.5, abs=0.01)
    assert points[-1].step == 100_000


def test_values_that_are_no_numbers_leave_gaps():
    curve = Curve()
    for step, value in enumerate((1.0, math.nan, math.inf, 2.0)):
        curve.append(step, value)
    assert [point.mean for point in curve.points()] == [1.0, 2.0]


def points_of(values):
    return [Point(step, value, value, value) for step, value in enumerate(values)]


def test_smoothing_leaves_a_line_as_it_is_also_at_its_ends():
    falling = [2.0 - 0.03 * step for step in range(50)]
    for values in ([3.0] * 50, falling, [3.0], [1.0, 4.0]):
        for strength in (0.0, 0.3, 0.9, 0.98):
            assert smooth(points_of(values), strength) == near(values, eps=FLOAT64)


def test_smoothing_is_the_regression_weighted_by_distance():
    values = np.random.default_rng(7).normal(size=40)
    steps = np.arange(40)
    for at, smoothed in enumerate(smooth(points_of(values), 0.8)):
        root = 0.8 ** (np.abs(steps - at) / 2)
        design = np.stack([np.ones(40), steps - at], axis=1)
        expected = np.linalg.lstsq(design * root[:, None], values * root, rcond=None)[0][0]
        assert smoothed == near(np.clip(expected, values.min(), values.max()), eps=FLOAT64)


def test_thinning_keeps_the_extremes():
    points = [Point(step, -float(step), float(step), 0.0) for step in range(1000)]
    few = thin(points, 100)
    assert len(few) <= 100
    assert (few[-1].lowest, few[-1].highest, few[-1].step) == (-999.0, 999.0, 999)


def test_ticks_are_round_numbers_within():
    for low, high, most, wanted in [
        (0.0, 1.0, 5, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.03, 0.31, 3, [0.1, 0.2, 0.3]),
        (0, 600, 6, [0, 100, 200, 300, 400, 500, 600]),
        (5.0, 5.0, 4, [5.0]),
    ]:
        assert ticks(low, high, most) == pytest.approx(wanted), (low, high, most, wanted)
