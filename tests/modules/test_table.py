"""Families, methods, objectives and precisions meet in runs, or are refused with a reason."""

from itertools import combinations

import pytest

from tests import table, tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def projects(tmp_path_factory):
    """A project of each family; the runs of its cases share its cache."""
    folder = tmp_path_factory.mktemp("table")
    return {family: table.write_project(folder / family, family) for family in tiny.FAMILIES}


@pytest.mark.parametrize("case", table.some_cases(), ids=str)
def test_a_run_trains_samples_saves_and_resumes_exactly_or_is_refused(case, projects):
    reason = table.run(case, projects[case.family])
    assert bool(reason) == table.is_refused(case), reason


def test_the_part_of_the_table_has_every_pair():
    for pair in combinations(("family", "method", "objective", "precision"), 2):
        some, every = (
            {tuple(getattr(case, axis) for axis in pair) for case in cases}
            for cases in (table.some_cases(), table.every_case())
        )
        assert some == every, pair
