"""Stochastic rounding against its definition."""

import math

import pytest
import torch
from torch import nn

from modules.optim.stochastic_rounding import in_float32, round_stochastically, stochastic_rounding
from tests.each import each

BF16_STEP = 2.0**-7  # between 1 and 2


def rounded(value, count=20_000, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return round_stochastically(torch.full((count,), value), generator)


def neighbors(value):
    """The bfloat16 numbers that a value lies between, by exact arithmetic."""
    step = 2.0 ** (math.floor(math.log2(abs(value))) - 7)
    low = math.floor(value / step) * step
    return low, low if low == value else low + step


@each("value", [1.001, -1.001, 1.9999, -3.14159, 1e-4, 2.71e-30, -6.02e23])
def test_the_mean_is_the_value_and_no_sample_leaves_its_neighbors(value):
    value = float(torch.tensor(value))
    samples = rounded(value).double()
    low, high = neighbors(value)
    assert set(samples.unique().tolist()) == {low, high}
    # Of n trials with probability p the mean errs by sqrt(p (1 - p) / n) of a step; five of these.
    fraction = (value - low) / (high - low)
    stray = math.sqrt(fraction * (1 - fraction) / len(samples)) * (high - low)
    assert abs(float(samples.mean()) - value) < 5 * stray


@each("value", [0.0, -0.0, 1.0, -1.0 - BF16_STEP, 2.0**-126, math.inf, -math.inf])
def test_what_bfloat16_can_represent_is_kept(value):
    samples = rounded(value, count=100)
    assert set(samples.tolist()) == {value}
    assert math.copysign(1, samples[0]) == math.copysign(1, value)


def test_nan_stays_nan_for_all_of_its_bits():
    bits = torch.tensor([0x7FFFFFFF, 0x7FC00000, 0x7F800001, -1], dtype=torch.int32)
    samples = round_stochastically(
        bits.view(torch.float32).repeat(1000), torch.Generator().manual_seed(0)
    )
    assert bool(torch.isnan(samples).all())


def test_every_weight_and_step_and_seed_has_other_chances_and_each_the_same_again():
    def result(number, step, seed):
        weight = nn.Parameter(torch.ones(1000, dtype=torch.bfloat16))
        weight.grad = torch.zeros_like(weight)
        with stochastic_rounding({number: weight}, seed=seed, step=step):
            weight.data += BF16_STEP / 2
        return weight.detach()

    assert torch.equal(result(1, 2, 3), result(1, 2, 3))
    for other in ((2, 2, 3), (1, 3, 3), (1, 2, 4)):
        assert not torch.equal(result(1, 2, 3), result(*other))


def test_within_weight_and_gradient_are_float32_and_autograd_sees_the_change():
    weight, still = (nn.Parameter(torch.ones(4, dtype=torch.bfloat16)) for _ in range(2))
    weight.grad = torch.full_like(weight, 0.5)
    version = weight._version
    with stochastic_rounding({0: weight, 1: still}, seed=0, step=0):
        assert (weight.dtype, weight.grad.dtype) == (torch.float32, torch.float32)
        assert still.dtype == torch.bfloat16  # it has no gradient and does not move
        weight.data += 1.0
    assert (weight.dtype, weight.grad.dtype) == (torch.bfloat16, torch.bfloat16)
    assert weight.tolist() == [2.0] * 4
    assert weight._version > version


@pytest.mark.parametrize(
    "context", [lambda w: stochastic_rounding({0: w}, seed=0, step=0), lambda w: in_float32({0: w})]
)
def test_a_step_that_fails_leaves_the_weights_as_they_were(context):
    weight = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    weight.grad = torch.ones_like(weight)
    with pytest.raises(ZeroDivisionError), context(weight):
        weight.data += 1.0
        raise ZeroDivisionError
    assert weight.dtype == weight.grad.dtype == torch.bfloat16
    assert weight.tolist() == [1.0] * 4


def test_small_steps_add_up_with_it_and_are_lost_without():
    def end(rounds):
        weight = nn.Parameter(torch.ones(1000, dtype=torch.bfloat16))
        optimizer = torch.optim.SGD([weight], lr=1e-4)
        for step in range(200):
            weight.grad = -torch.ones_like(weight)
            if rounds:
                with stochastic_rounding({0: weight}, seed=0, step=step):
                    optimizer.step()
            else:
                optimizer.step()
        return float(weight.detach().double().mean())

    assert end(rounds=False) == 1.0
    # 200 steps of 1e-4; each weight strays by at most sqrt(200 * p) steps of 2**-7, p = 0.0128.
    assert end(rounds=True) == pytest.approx(1.02, abs=5 * math.sqrt(2.6 / 1000) * BF16_STEP)
