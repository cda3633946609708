"""The engine's sampled timesteps follow the density that the window plots."""

import math

import torch
from pydantic import TypeAdapter

from modules.diffusion.draws import Draws
from modules.diffusion.timesteps import cumulative, timestep_table, weighted
from onetrainer.config.objectives.timesteps import Timesteps, Uniform
from onetrainer.schedules.timestep_density import density
from tests.close import near
from tests.each import each

COUNT, STEPS = 200_000, 100
SECTIONS = [
    {"kind": "uniform", "lowest": 0.1, "highest": 0.65},
    {"kind": "uniform", "shift": 3.0},
    {"kind": "logit_normal", "mean": -0.5},
    {"kind": "sigmoid", "slope": 8.0, "shift": 2.0},
    {"kind": "beta", "alpha": 0.5, "beta": 1.5},
    {"kind": "cosine_map", "highest": 0.9},
    {"kind": "inverted_parabola", "curvature": 20.0, "center": 0.3},
    {"kind": "heavy_tail", "lowest": 0.3, "shift": 0.5},
]


def fractions(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, generator=generator, dtype=torch.float64)


def statistic(sampled, probabilities):
    """Pearson's statistic, and its degrees of freedom, over timesteps that can be sampled."""
    counts = torch.bincount(sampled, minlength=STEPS).double()
    expected = torch.tensor(probabilities, dtype=torch.float64) * COUNT
    never = expected == 0
    assert counts[never].sum() == 0
    rare = expected < 5  # the statistic is not chi-square for these; together they are
    expected = torch.cat([expected[~rare], expected[rare].sum()[None]])
    counts = torch.cat([counts[~rare], counts[rare].sum()[None]])
    expected, counts = expected[expected > 0], counts[expected > 0]
    return float(((counts - expected) ** 2 / expected).sum()), len(expected) - 1


@each("fields", SECTIONS, ids=lambda fields: fields["kind"])
def test_samples_follow_the_density(fields):
    section = TypeAdapter(Timesteps).validate_python(fields)
    table = timestep_table(section, steps=STEPS)
    sampled = weighted(fractions(COUNT, 5), cdf=table)
    value, freedom = statistic(sampled, density(section, STEPS))
    # Mean: the degrees of freedom; deviation: the root of twice as many. Four of these.
    assert value < freedom + 4 * math.sqrt(2 * freedom)


def test_a_slightly_other_density_would_be_noticed():
    section = TypeAdapter(Timesteps).validate_python({"kind": "logit_normal", "mean": 0.03})
    table = timestep_table(section, steps=STEPS)
    sampled = weighted(fractions(COUNT, 5), cdf=table)
    other = TypeAdapter(Timesteps).validate_python({"kind": "logit_normal"})
    value, freedom = statistic(sampled, density(other, STEPS))
    assert value > freedom + 4 * math.sqrt(2 * freedom)


def test_samples_by_image_follow_the_density_too():
    """A generator seeded anew for each draw, as in training, makes no pattern."""
    section = TypeAdapter(Timesteps).validate_python({"kind": "cosine_map"})
    table = timestep_table(section, steps=10)
    draws = [Draws(1, step, (0, 1, 2, 3)) for step in range(1000)]
    cases = {
        "by density": ([weighted(each.fractions("timestep"), cdf=table) for each in draws],
                       density(section, 10)),
        "even": ([each.integers("timestep", 10) for each in draws], [0.1] * 10),
    }  # fmt: skip
    for name, (sampled, probabilities) in cases.items():
        counts = torch.bincount(torch.cat(sampled), minlength=10).double()
        expected = torch.tensor(probabilities, dtype=torch.float64) * 4000
        value = float(((counts - expected) ** 2 / expected).sum())
        assert value < 9 + 4 * math.sqrt(18), name


def test_timesteps_without_probability_are_never_sampled():
    below = cumulative([0.0, 0.3, 0.0, 0.7, 0.0])
    assert below.tolist() == near([0, 0.3, 0.3, 1, 1])
    ends = torch.tensor([0.0, 0.3, 1 - 2**-53], dtype=torch.float64)
    assert torch.searchsorted(below, ends, right=True).tolist() == [1, 3, 3]
    sampled = weighted(fractions(10_000, 0), cdf=below)
    assert set(sampled.tolist()) == {1, 3}


def test_even_timesteps_need_no_table():
    assert timestep_table(Uniform(), steps=1000) is None
