"""Construction of a library's optimizer from plain values, and its learning rate."""

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class OptimizerGroup:
    """Parameters with one learning rate.

    component: the one they belong to; see `interfaces.ParameterGroup`. lr: the full learning
    rate, which the schedule multiplies. is_matrix: whether all are matrices, for Muon; None for
    other optimizers.
    """

    component: str
    parameters: Sequence[nn.Parameter]
    lr: float
    is_matrix: bool | None = None


def construct(
    target: str, rate_groups: Sequence[OptimizerGroup], arguments: Mapping[str, object]
) -> torch.optim.Optimizer:
    """Construct the optimizer "module:Class" with the groups as its parameter groups.

    Each parameter group has its component as "part", and its full learning rate as "base_lr".
    """
    module, name = target.split(":")
    # The only place that imports optimizer libraries: some take seconds.
    factory: Callable[..., torch.optim.Optimizer] = getattr(importlib.import_module(module), name)
    if module.startswith("torchao") and not can_compile(rate_groups):
        factory = _uncompiled(factory)
    groups = [_param_group(rate_group) for rate_group in rate_groups]
    # Some classes require a learning rate, though every group has its own.
    return factory(groups, lr=rate_groups[0].lr, **arguments)


def is_matrix(parameter: nn.Parameter) -> bool:
    """Return whether a parameter has more than one row and more than one column.

    A convolution (o, i, h, w) counts as (o, i * h * w).
    """
    if parameter.ndim < 2:
        return False
    rows = parameter.shape[0]
    return 1 < rows < parameter.numel()


def set_lr(optimizer: torch.optim.Optimizer, multiplier: float) -> None:
    """Set every group's learning rate to a multiple of its full one."""
    for group in optimizer.param_groups:
        lr = group["base_lr"] * multiplier
        # torchao keeps it as a tensor, so that a new rate needs no new compilation.
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


def can_compile(rate_groups: Sequence[OptimizerGroup]) -> bool:
    """Return whether torch.compile is certain to work: on a GPU with Triton.

    On the CPU it needs a C++ compiler, which few users have, and takes seconds.
    """
    is_on_card = all(
        parameter.is_cuda for rate_group in rate_groups for parameter in rate_group.parameters
    )
    return is_on_card and importlib.util.find_spec("triton") is not None


def _param_group(rate_group: OptimizerGroup) -> dict[str, Any]:
    group = {
        "params": list(rate_group.parameters),
        "lr": rate_group.lr,
        "base_lr": rate_group.lr,
        "part": rate_group.component,
    }
    return group if rate_group.is_matrix is None else group | {"use_muon": rate_group.is_matrix}


def _uncompiled(factory: Any) -> Any:  # noqa: ANN401 - a class that is known at run time only
    """Return the same optimizer class with steps that bypass torch.compile."""

    class Uncompiled(factory):  # type: ignore[misc] # the base is chosen at run time
        def step(self, closure: Callable[[], float] | None = None) -> float | None:
            with torch.compiler.set_stance("force_eager"):
                return super().step(closure)  # type: ignore[no-any-return] # base is Any

    # Checkpoints identify the class by name, and may be resumed where it does compile.
    Uncompiled.__name__ = factory.__name__
    return Uncompiled
