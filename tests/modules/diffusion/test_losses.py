"""Losses against closed forms and autograd in float64, thresholds against their paper."""

import math

import pytest
import torch
from torch.nn import functional

from modules.diffusion.losses import errors, huber_thresholds, log_cosh, pseudo_huber
from modules.diffusion.schedule import ScheduleSettings, scaled_linear
from onetrainer.config.objectives.loss import Losses
from tests.close import close, near

DIFFERENCES = torch.tensor(
    [-100.0, -20.5, -3.0, -0.1, -1e-3, -1e-6, 0.0, 1e-6, 1e-3, 0.4, 2.0, 19.9, 50.0],
    dtype=torch.float64,
)
THRESHOLD = torch.tensor(0.1, dtype=torch.float64)


def gradient(loss, at=DIFFERENCES):
    place = at.clone().requires_grad_()
    loss(place).sum().backward()
    return place.grad


def exact(values, function):
    return torch.tensor([function(float(value)) for value in values], dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_log_cosh_is_exact_from_tiny_to_huge_errors(dtype):
    # By the series where math.log(math.cosh(x)) itself has canceled, and the line far out; either
    # leaves a thousand roundings next to where the one takes over from the other.
    def reference(x):
        if abs(x) < 1e-2:
            return x**2 / 2 - x**4 / 12
        return math.log(math.cosh(x)) if abs(x) < 300 else abs(x) - math.log(2)

    ours = log_cosh(DIFFERENCES.to(dtype))
    close(ours, exact(DIFFERENCES, reference), roundings=1000, each=True)


def test_gradients_are_those_of_the_formulas():
    huber = DIFFERENCES * 2 * THRESHOLD / (DIFFERENCES**2 + THRESHOLD**2).sqrt()
    zero = torch.zeros_like(DIFFERENCES)
    cases = {
        "mse": 2 * DIFFERENCES,
        "mae": DIFFERENCES.sign(),
        "huber": huber,
        "log_cosh": DIFFERENCES.tanh(),
    }
    for name, expected in cases.items():
        mix = Losses(**({"mse": 0.0} | {name: 3.0}))
        ours = gradient(lambda x, mix=mix: errors(mix, x, zero, threshold=THRESHOLD))
        close(ours, 3 * expected)


def test_pseudo_huber_is_the_papers_formula_and_finite_at_no_error():
    c = 0.1
    expected = exact(DIFFERENCES, lambda x: 2 * c * (math.sqrt(x * x + c * c) - c))
    close(pseudo_huber(DIFFERENCES, THRESHOLD), expected)
    tiny = torch.tensor(1e-6)
    assert gradient(lambda x: pseudo_huber(x, tiny), torch.zeros(3)).tolist() == [0, 0, 0]


def test_pseudo_huber_goes_from_squared_to_absolute_errors():
    wide = pseudo_huber(DIFFERENCES, torch.tensor(1e6, dtype=torch.float64))
    torch.testing.assert_close(wide, DIFFERENCES**2, rtol=1e-4, atol=0)
    narrow = pseudo_huber(DIFFERENCES, torch.tensor(1e-9, dtype=torch.float64)) / 2e-9
    # As 0.1 % of the largest, which is 100.
    torch.testing.assert_close(narrow, DIFFERENCES.abs(), rtol=1e-2, atol=1e-3)


def test_a_mix_is_the_sum_of_its_parts():
    generator = torch.Generator().manual_seed(0)
    one, other = torch.randn(2, 3, 4, 8, 8, generator=generator).unbind(0)
    mix = Losses(mse=0.5, mae=2.0, log_cosh=3.0)
    parts = 0.5 * functional.mse_loss(one, other, reduction="none")
    parts = parts + 2 * functional.l1_loss(one, other, reduction="none")
    parts = parts + 3 * (one - other).cosh().log()
    close(errors(mix, one, other), parts)
    plain = errors(Losses(), one, other)
    assert torch.equal(plain, functional.mse_loss(one, other, reduction="none"))


def thresholds(levels, kind, threshold, scale):
    section = Losses(huber=1, huber_schedule=kind, huber_threshold=threshold, huber_scale=scale)
    return huber_thresholds(section, levels)


@pytest.mark.parametrize("zero_snr", [False, True])
def test_huber_thresholds_follow_their_schedules(zero_snr):
    schedule = scaled_linear(ScheduleSettings(zero_terminal_snr=zero_snr))
    c, scale = 0.01, 3.0
    tables = {
        kind: thresholds(schedule, kind, c, scale) / scale
        for kind in ("constant", "exponential", "snr")
    }
    alphas = schedule.alphas_cumprod.double()
    sigmas = ((1 - alphas) / alphas).sqrt()
    close(tables["constant"], torch.full_like(alphas, c, dtype=torch.float32), each=True)
    expected = exact(torch.arange(1000), lambda t: math.exp(math.log(c) * t / 1000))
    close(tables["exponential"], expected, each=True)
    snr = (1 - c) / (1 + sigmas) ** 2 + c
    torch.testing.assert_close(tables["snr"].double(), snr, rtol=1e-4, atol=0)
    assert all(table.isfinite().all() and (table > 0).all() for table in tables.values())
    if zero_snr:
        assert tables["snr"][-1] == near(c)
