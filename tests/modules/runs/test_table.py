"""Families, methods, objectives, precisions and ways of saving memory meet in runs.

Each run trains on the processor, and its second half again: of every other one on a pretended
GPU, where no devices may be mixed. The weights are the same, bit for bit. What cannot be is
refused. Six runs that hold every family, objective, precision and way of saving memory are part of
`make test`, where test_files.py trains each method; `make test-long` makes any two
values of any two axes meet, and `tests.benchmarks.table` runs all of them on that GPU.
"""

from itertools import combinations

import pytest

from tests import table, tiny
from tests.cases import cases

pytestmark = pytest.mark.slow

AXES = ("family", "method", "objective", "precision", "memory")
CASES = table.some_cases()
FEW = table.few_cases()
ON_GPU = FEW[::2]
METHODS = ("lora", "loha", "oft", "embedding", "output-embedding", "lora-and-embedding")
ALWAYS = [case for case in FEW if case.method in METHODS]


@pytest.fixture(scope="session")
def projects(tmp_path_factory):
    """A project of each family; the runs of its cases use one cache."""
    folder = tmp_path_factory.mktemp("table")
    return {family: table.write_project(folder / family, family) for family in tiny.FAMILIES}


@pytest.mark.parametrize("case", cases(CASES, ALWAYS), ids=str)
def test_a_run_trains_samples_saves_and_resumes_exactly_or_is_refused(case, projects):
    reason = table.run(case, projects[case.family], pretends=case in ON_GPU)
    assert bool(reason) == table.is_refused(case), reason


def test_what_cannot_be_is_refused_and_nothing_else():
    refused = {case for case in table.every_case() if table.is_refused(case)}
    for case in CASES:
        assert bool(table.refusal_of(case)) == (case in refused), case


def found(among, *axes):
    return {tuple(getattr(case, axis) for axis in axes) for case in among}


def test_the_few_hold_every_value_but_some_methods():
    for axis in AXES:
        assert axis == "method" or found(ALWAYS, axis) == found(CASES, axis)


def test_the_long_table_has_every_pair():
    for pair in combinations(AXES, 2):
        assert found(CASES, *pair) == found(table.every_case(), *pair), pair


def test_every_method_runs_with_offloaded_layers_and_without():
    ways = found([case for case in CASES if not table.is_refused(case)], "method", "memory")
    for method in table.METHODS:
        assert {"offload" in way for name, way in ways if name == method} == {True, False}
