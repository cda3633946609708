"""Which updates are lost by rounding is measured on the device."""

import pytest
import torch
from torch import nn

from modules.optim.step_check import STEPS_PER_SAMPLE, UpdateSample
from onetrainer.config.optimizers.adam import AdamW
from tests import pretend
from tests.close import near
from tests.stepping import Training


def check_of(made, step):
    made.engine.begin(step)
    made.engine.backward(made.loss(step))
    made.engine.clip_gradients()
    return made.engine.step()


@pytest.mark.parametrize(("lr", "low", "high"), [(1e-7, 0.95, 1.0), (1e-1, 0.0, 0.1)])
def test_low_rates_change_no_weight_in_bf16(lr, low, high):
    made = Training(AdamW(lr=lr, weight_decay=0), dtype=torch.bfloat16, clipping=1.0)
    made.optimizer.param_groups[1]["lr"] = lr
    check = check_of(made, STEPS_PER_SAMPLE)
    assert low <= check.unchanged.item() <= high


@pytest.mark.parametrize(
    "options", [{}, {"dtype": torch.bfloat16, "rounding_seed": 1}], ids=["fp32", "stochastic"]
)
def test_weights_that_lose_nothing_are_not_measured(options):
    assert check_of(Training(AdamW(), **options), STEPS_PER_SAMPLE).unchanged is None


def test_measuring_waits_for_nothing_and_happens_now_and_then():
    with pretend.accelerator() as gpu:
        made = Training(AdamW(), dtype=torch.bfloat16, device=torch.device("cuda")).run(0, 1)
        gpu.syncs.clear()
        check = check_of(made, STEPS_PER_SAMPLE)
        assert [sync for sync in gpu.syncs if "tests" not in sync.where] == []
        assert check.unchanged is not None
        assert check_of(made, STEPS_PER_SAMPLE + 1).unchanged is None


def test_the_sample_sees_an_update_of_weights_in_any_memory_format():
    weight = nn.Parameter(
        torch.ones(8, 4, 3, 3, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    )
    sample = UpdateSample.take([weight], 0)
    with torch.no_grad():
        weight[0] += 1
    assert sample.unchanged().item() == near(7 / 8)
