"""A step of the real architectures dispatches no more operations than its budget."""

import pytest

from tests.benchmarks.operations import CASES, count
from tests.each import each


def spent(name):
    return sum(sum(names.values()) for names in count(CASES[name]).values())


@each("name", ["sd15 lora", "sd15 full"])
def test_steps_of_stable_diffusion_1_5_keep_to_their_budget(name):
    assert 1000 < spent(name) <= CASES[name].budget


@pytest.mark.long
@each("name", [name for name in CASES if name not in ("sd15 lora", "sd15 full")])
def test_other_steps_keep_to_their_budget(name):
    assert 1000 < spent(name) <= CASES[name].budget
