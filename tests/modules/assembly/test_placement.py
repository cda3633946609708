"""Where a run's components compute, and under which contexts."""

from contextlib import nullcontext

import torch
from torch import nn

from modules.assembly.placement import autocast_of, uses_dropout
from onetrainer.config.train import TrainConfig
from tests.each import each

CPU = torch.device("cpu")


def config(**sections):
    return TrainConfig.model_validate(sections)


def casts(method, precision="bf16"):
    context = autocast_of(config(method=method, hardware={"precision": precision}), CPU)
    return not isinstance(context, nullcontext)


@each(
    "method, precision, expected",
    [
        ({"kind": "lora"}, "bf16", False),
        ({"kind": "lora"}, "fp16", False),
        ({"kind": "lora", "text_encoders": {"te1": {"train": True}}}, "bf16", False),
        ({"kind": "full", "weights": "bf16"}, "bf16", False),
        ({"kind": "full", "weights": "bf16"}, "fp16", True),
        ({"kind": "full", "weights": "fp32"}, "bf16", True),
        ({"kind": "full", "weights": "fp32"}, "fp32", False),
        ({"kind": "vae", "weights": "fp32"}, "bf16", False),
    ],
)
def test_autocast_is_on_where_trained_weights_have_another_dtype(method, precision, expected):
    assert casts(method, precision) == expected


@each(
    "method, expected",
    [
        ({"kind": "lora"}, False),
        ({"kind": "lora", "dropout": 0.1}, True),
        ({"kind": "lokr", "rank_dropout": 0.1}, True),
        ({"kind": "oft", "module_dropout": 0.1}, True),
        ({"kind": "full"}, False),
    ],
)
def test_random_state_is_kept_for_the_dropout_of_adapters(method, expected):
    assert uses_dropout(config(method=method), [[nn.Linear(2, 2)]]) == expected


def test_random_state_is_kept_for_dropout_of_the_models_own_layers():
    attention = nn.Module()
    attention.dropout = 0.0
    without = [nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0), attention)]
    assert not uses_dropout(config(), [without])
    assert uses_dropout(config(), [without, [nn.Sequential(nn.Dropout(0.1))]])
    attention.dropout = 0.1  # as CLIP's attention has it
    assert uses_dropout(config(), [without])
