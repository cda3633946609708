"""What compares numbers can fail, and passes what another order of adding gives."""

import pytest
import torch

from tests.close import FLOAT64, close, near
from tests.each import each

TERMS = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0))
SUMS = TERMS.sum(1)


def test_another_order_of_adding_is_as_close_as_float64():
    one_by_one = sum(TERMS.T)
    assert not torch.equal(one_by_one, SUMS)
    close(one_by_one, SUMS, of=TERMS.abs().sum(1))
    close({"sums": [SUMS]}, {"sums": [TERMS.double().sum(1)]})
    assert SUMS.tolist() == near(TERMS.double().sum(1).tolist())


@each(
    "wrong",
    [-SUMS, SUMS * 1.0001, SUMS.roll(1), SUMS - TERMS[:, 7], SUMS[:3], SUMS.double(), SUMS.half()],
)
def test_a_wrong_sign_factor_place_term_shape_or_type_is_found(wrong):
    with pytest.raises(AssertionError):
        close(wrong, SUMS)


def test_small_numbers_beside_large_ones_can_be_compared_each_by_itself():
    found, expected = torch.tensor([1e3, 1e-3]), torch.tensor([1e3, 2e-3])
    close(found, expected)
    with pytest.raises(AssertionError):
        close(found, expected, each=True)


def test_numbers_of_plain_python_are_held_to_their_own_precision():
    assert near(0.3, eps=FLOAT64) == 0.1 + 0.2
    assert near({"a": 0.3}, eps=FLOAT64) != {"a": 0.3 + 1e-9}
    assert near(0.0, of=1.0, eps=FLOAT64) != 1e-9
