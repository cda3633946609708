"""Stochastic rounding against its definition."""

import math

import pytest
import torch
from torch import nn

from modules.optim.rounding_noise import RoundingNoise, uniform_bits
from modules.optim.stochastic_rounding import in_float32, round_stochastically, stochastic_rounding
from tests.each import each

BF16_STEP = 2.0**-7  # between 1 and 2
CPU = torch.device("cpu")


def rounded_all(values, seed=0):
    """Values rounded once each, as bfloat16 without any further rounding."""
    exact = values.clone()
    parts, noise = [exact.view(torch.int32)], [uniform_bits(seed, len(exact), CPU)]
    round_stochastically(exact, parts, noise)
    result = exact.to(torch.bfloat16)
    torch.testing.assert_close(result.float(), exact, rtol=0, atol=0, equal_nan=True)
    return result


def rounded(value, count=20_000):
    return rounded_all(torch.full((count,), value))


def noise_of(seed=0, step=0, *, weights=1000, largest=1000):
    return RoundingNoise(seed, step, weights=weights, largest=largest)


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
    samples = rounded_all(bits.view(torch.float32).repeat(1000))
    assert bool(torch.isnan(samples).all())


def test_every_weight_and_step_and_seed_has_other_chances_and_each_the_same_again():
    def result(number, step, seed):
        weight = nn.Parameter(torch.ones(1000, dtype=torch.bfloat16))
        weight.grad = torch.zeros_like(weight)
        with stochastic_rounding({number: weight}, noise_of(seed, step)):
            weight.data += BF16_STEP / 2
        return weight.detach()

    assert torch.equal(result(1, 2, 3), result(1, 2, 3))
    for other in ((2, 2, 3), (1, 3, 3), (1, 2, 4)):
        assert not torch.equal(result(1, 2, 3), result(*other))


def test_within_weight_and_gradient_are_float32_and_autograd_sees_the_change():
    weight, still = (nn.Parameter(torch.ones(4, dtype=torch.bfloat16)) for _ in range(2))
    weight.grad = torch.full_like(weight, 0.5)
    version = weight._version
    with stochastic_rounding({0: weight, 1: still}, noise_of()):
        assert (weight.dtype, weight.grad.dtype) == (torch.float32, torch.float32)
        assert still.dtype == torch.bfloat16  # it has no gradient and does not move
        weight.data += 1.0
    assert (weight.dtype, weight.grad.dtype) == (torch.bfloat16, torch.bfloat16)
    assert weight.tolist() == [2.0] * 4
    assert weight._version > version


@pytest.mark.parametrize(
    "context", [lambda w: stochastic_rounding({0: w}, noise_of()), lambda w: in_float32({0: w})]
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
                with stochastic_rounding({0: weight}, noise_of(step=step)):
                    optimizer.step()
            else:
                optimizer.step()
        return float(weight.detach().double().mean())

    assert end(rounds=False) == 1.0
    # 200 steps of 1e-4; each weight strays by at most sqrt(200 * p) steps of 2**-7, p = 0.0128.
    assert end(rounds=True) == pytest.approx(1.02, abs=5 * math.sqrt(2.6 / 1000) * BF16_STEP)


def test_noise_is_uniform_and_independent_of_its_neighbors():
    """By chi-squared tests, which a right hash fails once in a million: 4.9 standard deviations."""
    bits = uniform_bits(12345678901, 1 << 20, CPU)
    assert int(bits.min()) >= 0 and int(bits.max()) < 1 << 16
    for distance in (1, 2, 64, 320, 1280):
        # The upper 4 bits of a number beside those of another one: 256 kinds of pairs.
        pairs = (bits[:-distance] >> 12) * 16 + (bits[distance:] >> 12)
        counts = torch.bincount(pairs, minlength=256).double()
        expected = len(pairs) / 256
        squares = float(((counts - expected) ** 2 / expected).sum())
        assert abs(squares - 255) < 4.9 * math.sqrt(2 * 255), distance
    lower = torch.bincount(bits & 255, minlength=256).double()
    squares = float(((lower - len(bits) / 256) ** 2 / (len(bits) / 256)).sum())
    assert abs(squares - 255) < 4.9 * math.sqrt(2 * 255)


def test_noise_does_not_depend_on_the_chunk_and_weights_keep_their_layout():
    def results(chunks, layout):
        weights = {
            number: nn.Parameter(
                torch.ones(2, 8, 5, 5, dtype=torch.bfloat16).to(memory_format=layout)
            )
            for number in range(4)
        }
        noise = noise_of(weights=1600, largest=400)
        for chunk in chunks:
            own = {number: weights[number] for number in chunk}
            for weight in own.values():
                weight.grad = torch.zeros_like(weight)
            with stochastic_rounding(own, noise):
                for weight in own.values():
                    weight.data += BF16_STEP / 2
        return [weight.detach() for weight in weights.values()]

    one, other = (
        results(chunks, torch.contiguous_format) for chunks in ([range(4)], [(3,), (1, 2), (0,)])
    )
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert len({tuple(weight.flatten().tolist()) for weight in one}) == 4  # each has its own
    channels_last = results([range(4)], torch.channels_last)
    assert all(each.is_contiguous(memory_format=torch.channels_last) for each in channels_last)
