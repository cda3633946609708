"""A library's optimizer, made of plain values."""

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Movable:
    """Parameters that move at one rate.

    part: the network they belong to; see `interfaces.ParameterGroup`. lr: the full learning rate,
    which the schedule multiplies. is_matrix: whether each of them is one, for Muon; None where the
    optimizer does not ask.
    """

    part: str
    parameters: Sequence[nn.Parameter]
    lr: float
    is_matrix: bool | None = None


def construct(
    target: str, movables: Sequence[Movable], arguments: Mapping[str, object]
) -> torch.optim.Optimizer:
    """The optimizer "module:Class" over the parameters, which are its groups.

    Each group knows its part, and its full learning rate as "base_lr".
    """
    module, name = target.split(":")
    # The one place where libraries of optimizers are imported: some take seconds.
    factory: Callable[..., torch.optim.Optimizer] = getattr(importlib.import_module(module), name)
    if module.startswith("torchao") and not can_compile(movables):
        factory = _uncompiled(factory)
    groups = [_described(movable) for movable in movables]
    # Some demand a rate, though every group has its own.
    return factory(groups, lr=movables[0].lr, **arguments)


def is_matrix(parameter: nn.Parameter) -> bool:
    """Whether a parameter has rows and columns, more than one of each.

    A convolution (o, i, h, w) counts as (o, i * h * w).
    """
    if parameter.ndim < 2:
        return False
    rows = parameter.shape[0]
    return 1 < rows < parameter.numel()


def set_lr(optimizer: torch.optim.Optimizer, multiplier: float) -> None:
    """Scales every group's own learning rate."""
    for group in optimizer.param_groups:
        lr = group["base_lr"] * multiplier
        # torchao keeps it as a tensor, so that a new rate is not a new program to compile.
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


def can_compile(movables: Sequence[Movable]) -> bool:
    """Whether torch.compile can be counted on: on a graphics card with Triton.

    On the processor it needs a C++ compiler, which few people have, and takes seconds.
    """
    is_on_card = all(parameter.is_cuda for movable in movables for parameter in movable.parameters)
    return is_on_card and importlib.util.find_spec("triton") is not None


def _described(movable: Movable) -> dict[str, Any]:
    group = {
        "params": list(movable.parameters),
        "lr": movable.lr,
        "base_lr": movable.lr,
        "part": movable.part,
    }
    return group if movable.is_matrix is None else group | {"use_muon": movable.is_matrix}


def _uncompiled(factory: Any) -> Any:  # noqa: ANN401 - a class that is known at run time only
    """The same class of optimizer, whose steps are computed without torch.compile."""

    class Uncompiled(factory):  # type: ignore[misc] # the base is chosen at run time
        def step(self, closure: Callable[[], float] | None = None) -> float | None:
            with torch.compiler.set_stance("force_eager"):
                return super().step(closure)  # type: ignore[no-any-return] # base is Any

    # Checkpoints know the class by its name, and may be taken up where it compiles.
    Uncompiled.__name__ = factory.__name__
    return Uncompiled
