"""Timestep densities against numerically integrated formulas."""

import math
from statistics import NormalDist

import pytest
from pydantic import TypeAdapter

from onetrainer.config.objectives.timesteps import Timesteps, Uniform
from onetrainer.schedules.timestep_density import density, fraction_below
from tests.close import FLOAT64, near
from tests.each import each

FINE = 10_000  # places for numeric integration
ADAPTER = TypeAdapter(Timesteps)


def beta_density(u, alpha, beta):
    scale = math.gamma(alpha + beta) / math.gamma(alpha) / math.gamma(beta)
    return scale * u ** (alpha - 1) * (1 - u) ** (beta - 1)


def logit_normal_density(u, mean, spread):
    return NormalDist(mean, spread).pdf(math.log(u / (1 - u))) / (u * (1 - u))


def heavy_tail_level(u, scale):
    return 1 - u - scale * (math.cos(math.pi / 2 * u) ** 2 - 1 + u)


# Each kind with parameters, and its density over [0, 1] up to a factor.
SHAPES = [
    ({"kind": "uniform"}, lambda u: 1.0),
    ({"kind": "logit_normal"}, lambda u: logit_normal_density(u, 0, 1)),
    (
        {"kind": "logit_normal", "mean": -1.5, "spread": 2.0},
        lambda u: logit_normal_density(u, -1.5, 2.0),
    ),
    ({"kind": "sigmoid"}, lambda u: 1 / (1 + math.exp(-5 * (u - 0.5)))),
    (
        {"kind": "sigmoid", "slope": -60.0, "center": 0.9},
        lambda u: 1 / (1 + math.exp(60 * (u - 0.9))),
    ),
    ({"kind": "sigmoid", "slope": 0.0}, lambda u: 1.0),
    ({"kind": "beta"}, lambda u: beta_density(u, 2, 2)),
    ({"kind": "beta", "alpha": 1.0, "beta": 3.5}, lambda u: beta_density(u, 1, 3.5)),
    ({"kind": "beta", "alpha": 20.0, "beta": 13.0}, lambda u: beta_density(u, 20, 13)),
    ({"kind": "cosine_map"}, lambda u: 2 / (math.pi - 2 * math.pi * u + 2 * math.pi * u * u)),
    ({"kind": "inverted_parabola"}, lambda u: max(0, 2 - 8 * (u - 0.5) ** 2)),
    (
        {"kind": "inverted_parabola", "curvature": 50.0, "center": 0.1},
        lambda u: max(0, 2 - 50 * (u - 0.1) ** 2),
    ),
    (
        {"kind": "inverted_parabola", "curvature": -20.0, "center": 0.4},
        lambda u: 2 + 20 * (u - 0.4) ** 2,
    ),
]
IDS = [" ".join(map(str, fields.values())) for fields, _ in SHAPES]


def section(fields, **more):
    return ADAPTER.validate_python(fields | more)


def integrated(function, steps):
    """Return the mass of each of equal parts of [0, 1], by the midpoints of finer ones."""
    part = FINE // steps
    values = [function((place + 0.5) / FINE) for place in range(FINE)]
    masses = [math.fsum(values[start : start + part]) for start in range(0, FINE, part)]
    return [mass / math.fsum(masses) for mass in masses]


@each(("fields", "function"), SHAPES, ids=IDS)
def test_densities_are_those_of_the_formulas(fields, function):
    ours = density(section(fields), 200)
    assert len(ours) == 200
    assert math.fsum(ours) == near(1, eps=FLOAT64)
    assert ours == pytest.approx(integrated(function, 200), rel=1e-3, abs=2e-5)  # of 5e-3


@each("scale", [-1.0, -0.4, 0.0, 0.9, 1.29, 1.75])
def test_the_heavy_tail_is_that_of_its_map(scale):
    counts = [0] * 50
    for place in range(FINE):
        level = heavy_tail_level((place + 0.5) / FINE, scale)
        counts[min(49, int(level * 50))] += 1
    ours = density(section({"kind": "heavy_tail", "scale": scale}), 50)
    # A part holds at least a few hundred places, give or take one at each end.
    assert ours == pytest.approx([count / FINE for count in counts], abs=3 / FINE)


@each(("alpha", "beta"), [(0.05, 0.05), (0.5, 0.5), (0.3, 20), (1, 1), (20, 20)])
def test_the_beta_distribution_is_right_up_to_its_limits(alpha, beta):
    made = section({"kind": "beta", "alpha": alpha, "beta": beta})
    if alpha == beta:
        assert fraction_below(made, 0.5) == near(0.5, eps=FLOAT64)
    if alpha == beta == 0.5:  # the arcsine distribution
        for level in (1e-4, 0.2, 0.7, 0.999):
            expected = 2 / math.pi * math.asin(math.sqrt(level))
            assert fraction_below(made, level) == near(expected, eps=FLOAT64)
    # Integrated over v = u^alpha on the far left, where the density of u may have a peak.
    width = 0.01**alpha / FINE
    places = [((place + 0.5) * width) ** (1 / alpha) for place in range(FINE)]
    scale = math.gamma(alpha + beta) / math.gamma(alpha) / math.gamma(beta) / alpha
    mass = scale * math.fsum((1 - place) ** (beta - 1) * width for place in places)
    assert fraction_below(made, 0.01) == near(mass)  # a sum of many places: as float32


@each(("fields", "function"), SHAPES, ids=IDS)
def test_shift_and_range_are_applied_once_and_the_range_holds(fields, function):
    shift, lowest, highest = 3.0, 0.2, 0.8

    def moved(level):
        """Return the density of shape → shift → range, by change of variables."""
        inside = (level - lowest) / (highest - lowest)
        if not 0 < inside < 1:
            return 0.0
        base = shift - (shift - 1) * inside
        return function(inside / base) * shift / base**2

    ours = density(section(fields, shift=shift, lowest=lowest, highest=highest), 100)
    assert ours == pytest.approx(integrated(moved, 100), rel=2e-3, abs=2e-5)  # of 1e-2
    assert ours[:20] == [0.0] * 20
    assert ours[80:] == [0.0] * 20
    assert math.fsum(ours) == pytest.approx(1)


def test_the_shift_takes_the_middle_where_the_paper_takes_it():
    # Esser et al. 2024, section 5.3.2: t → s·t / (1 + (s - 1)·t); 3 takes 1/2 to 3/4.
    assert fraction_below(Uniform(shift=3.0), 0.75) == pytest.approx(0.5)


def test_a_narrow_range_takes_parts_of_timesteps():
    assert density(Uniform(lowest=0.25, highest=0.5), 4) == [0, 1, 0, 0]
    assert density(Uniform(lowest=0.125, highest=0.5), 4) == pytest.approx([1 / 3, 2 / 3, 0, 0])


@each(("fields", "function"), SHAPES, ids=IDS)
def test_rounding_next_to_the_ends_leaves_no_range(fields, function):
    for shift in (0.1, 1.0, 10.0):
        made = section(fields, shift=shift, lowest=0.2, highest=0.8)
        for level in (math.nextafter(0.8, 0), math.nextafter(0.2, 1), 0.8, 0.2):
            assert fraction_below(made, level) == near(
                float(level > 0.5), of=1.0
            )  # steep ones magnify the last bit


def test_an_empty_range_is_refused():
    with pytest.raises(ValueError, match="no timesteps"):
        density(Uniform(lowest=0.5, highest=0.5))
