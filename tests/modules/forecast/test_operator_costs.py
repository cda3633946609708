"""What operators do, and how long that takes: against torch's own count, and by hand."""

from collections import Counter

import pytest
import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from modules.forecast import operator_costs
from modules.forecast.operator_costs import OperatorCounter, measure_device
from onetrainer.presets.step_work import DeviceSpeed, Operation
from tests import tiny
from tests.close import near

F32 = torch.float32


def flops(work):
    return sum(one.flops * count for one, count in work.operations.items())


def test_arithmetic_is_what_torch_counts():
    family = tiny.family()
    latents = torch.zeros(2, 4, 16, 16, requires_grad=True)
    timesteps, text = torch.zeros(2, dtype=torch.int64), torch.zeros(2, 77, tiny.WIDTH)

    def compute():
        family.unet(latents, timesteps, text).sample.sum().backward()

    with FlopCounterMode(display=False) as counted:
        compute()
    with OperatorCounter() as work:
        compute()
    attention = sum(
        one.flops * count for one, count in work.operations.items() if one.kind == "attention"
    )
    # torch does not count the processor's attention.
    assert attention > 0
    assert flops(work) - attention == counted.get_total_flops()


def test_attention_of_narrow_heads_weighs_as_many_pairs():
    wide, narrow = OperatorCounter(), OperatorCounter()
    for work, width in ((wide, 40), (narrow, 4)):
        tokens = torch.zeros(1, 2, 64, width)
        with work:
            functional.scaled_dot_product_attention(tokens, tokens, tokens)
    # Two products of 64 x 40 x 64 in each of two heads; a product is a sum as well.
    assert flops(wide) == flops(narrow) == 2 * 2 * 2 * 64 * 40 * 64


def test_views_are_free():
    numbers = torch.zeros(4, 4)
    with OperatorCounter() as work:
        numbers.view(16).unsqueeze(0).transpose(0, 1)
    assert not work.operations


def test_the_slowest_of_three_counts():
    speed = DeviceSpeed({"product float32": 1e9, "product bfloat16": 4e9}, 1e6, 1e-3)
    work = Counter(
        {
            Operation("product", "float32", flops=10**9, bytes_moved=1): 2,  # a second each
            Operation("product", "bfloat16", flops=10**9, bytes_moved=1): 1,  # a quarter
            Operation("product", "float64", flops=10**9, bytes_moved=1): 1,  # as in float32
            Operation("other", "float32", flops=0, bytes_moved=10**6): 3,  # a second each
            Operation("other", "float32", flops=0, bytes_moved=4): 5,  # a thousandth each
        }
    )
    assert speed.seconds(work) == near(2 + 0.25 + 1 + 3 + 0.005)


@pytest.fixture
def _measured_shortly(monkeypatch):
    monkeypatch.setattr(operator_costs, "SECONDS_PER_RATE", 1e-6)
    monkeypatch.setattr(operator_costs, "LATENT_SIDES", (1, 2))


@pytest.mark.usefixtures("_measured_shortly")
def test_a_machine_is_measured_without_touching_random_numbers():
    before = torch.get_rng_state()
    speed = measure_device(tiny.CPU, torch.bfloat16)
    assert torch.equal(torch.get_rng_state(), before)
    assert speed.bytes_per_second > 0
    assert speed.call_seconds > 0
    assert set(speed.flops) == {
        f"{kind} {dtype}"
        for kind in ("product", "convolution", "attention")
        for dtype in ("float32", "bfloat16")
    }


@pytest.mark.usefixtures("_measured_shortly")
def test_what_is_slow_is_not_measured_at_full_size(monkeypatch):
    sizes = []

    def blocks(width, side, device, dtype):
        sizes.append(side)
        return make(width, side, device, dtype)

    make = operator_costs._unet_blocks
    monkeypatch.setattr(operator_costs, "_unet_blocks", blocks)
    for slow, made in ((1e9, [4, 1, 2]), (0.0, [4, 1])):
        sizes.clear()
        monkeypatch.setattr(operator_costs, "_SLOW_SECONDS", slow)
        measure_device(tiny.CPU, F32)
        assert sizes == made
