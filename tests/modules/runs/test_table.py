"""Families, methods, objectives, precisions and ways of saving memory meet in runs.

Each run trains on the processor, and its second half again: of every other one on a pretended
GPU, where no devices may be mixed. The weights are the same, bit for bit. What cannot be is
refused. One run of each method is part of `make test`; `make test-long` makes any two
values of any two axes meet, and `tests.benchmarks.table` runs all of them on that GPU.
"""

from itertools import combinations

import pytest

from tests import table, tiny

pytestmark = pytest.mark.slow

AXES = ("family", "method", "objective", "precision", "memory")
CASES = table.some_cases()
FEW = table.few_cases()
ON_GPU = FEW[::2]
IN_LONG = [pytest.param(case, marks=pytest.mark.long) for case in CASES if case not in FEW]


@pytest.fixture(scope="session")
def projects(tmp_path_factory):
    """A project of each family; the runs of its cases use one cache."""
    folder = tmp_path_factory.mktemp("table")
    return {family: table.write_project(folder / family, family) for family in tiny.FAMILIES}


@pytest.mark.parametrize("case", [*FEW, *IN_LONG], ids=str)
def test_a_run_trains_samples_saves_and_resumes_exactly_or_is_refused(case, projects):
    reason = table.run(case, projects[case.family], pretends=case in ON_GPU)
    assert bool(reason) == table.is_refused(case), reason


def test_what_cannot_be_is_refused_and_nothing_else():
    refused = {case for case in table.every_case() if table.is_refused(case)}
    for case in CASES:
        assert bool(table.refusal_of(case)) == (case in refused), case


def found(cases, *axes):
    return {tuple(getattr(case, axis) for axis in axes) for case in cases}


def test_the_long_table_has_every_pair():
    for pair in combinations(AXES, 2):
        assert found(CASES, *pair) == found(table.every_case(), *pair), pair


def test_every_method_runs_and_in_long_runs_with_offloaded_layers_and_without():
    assert len(FEW) == len(table.METHODS)
    for axis in AXES:
        assert found(FEW, axis) == found(CASES, axis)
    ways = found([case for case in CASES if not table.is_refused(case)], "method", "memory")
    for method in table.METHODS:
        assert {"offload" in way for name, way in ways if name == method} == {True, False}
