"""Steps of optimizers on a few weights, for tests that compare them."""

from collections.abc import Iterable
from typing import get_args

import torch
from torch import nn

from modules.interfaces import ParameterGroup
from modules.optim.build import build_optimizer
from modules.optim.learning_rate import set_lr
from onetrainer.config.optimizers.optimizer import Optimizer
from onetrainer.config.optimizers.optimizer_section import OptimizerSection

SECTIONS: tuple[type[OptimizerSection], ...] = tuple(
    kind for kind in get_args(get_args(Optimizer)[0]) if kind.target
)
# 4096 numbers, from where on state is kept in 8 or 4 bits; twice the same shape, so that what
# computes several weights at once does.
SHAPES = {"matrix": (64, 64), "second": (64, 64), "bias": (64,), "kernel": (8, 16, 3, 3)}
UNET, TEXT_ENCODER = ("matrix", "bias", "kernel"), ("second",)


def weights(dtype=torch.float32) -> dict[str, nn.Parameter]:
    """The same weights every time."""
    generator = torch.Generator().manual_seed(0)
    return {
        name: nn.Parameter(torch.randn(shape, generator=generator).to(dtype))
        for name, shape in SHAPES.items()
    }


def gradient(name: str, weight: torch.Tensor, step: int) -> torch.Tensor:
    """Mostly toward a target, so that there is something to train, with noise of the step."""
    generator = torch.Generator().manual_seed(1000 * step + len(name))
    noise = torch.randn(weight.shape, generator=generator)
    wide = weight.detach().to(torch.promote_types(weight.dtype, torch.float32))
    return (0.3 * wide - 0.1 + 0.1 * noise).to(weight.dtype)


def warm_up(step: int) -> float:
    """From a quarter to the full rate."""
    return min(1.0, (step + 1) / 4)


def groups_of(trained: dict[str, nn.Parameter], *, lr: float | None) -> list[ParameterGroup]:
    """Two networks; lr: the second one's own."""
    return [
        ParameterGroup("unet", {name: trained[name] for name in UNET}),
        ParameterGroup("te", {name: trained[name] for name in TEXT_ENCODER}, lr=lr),
    ]


def built(section, trained, *, lr=None) -> torch.optim.Optimizer:
    return build_optimizer(section, groups_of(trained, lr=lr))


def make_steps(optimizer, trained, steps: Iterable[int]) -> None:
    """Steps as the loop makes them."""
    for number in steps:
        set_lr(optimizer, warm_up(number))
        for name, weight in trained.items():
            weight.grad = gradient(name, weight, number)
        optimizer.step()
        optimizer.zero_grad()
