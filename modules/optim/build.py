"""Construction of the library's optimizer from its config section."""

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from modules.interfaces import ParameterGroup
from modules.optim.custom import build_custom
from onetrainer.config.optimizers.custom import CustomOptimizer
from onetrainer.config.optimizers.momentum import Muon
from onetrainer.config.optimizers.optimizer import Optimizer, require_package

# Settings of an optimizer section that are no arguments of its class; learning rates are per group.
_OWN_KEYS = {"kind", "lr", "other_lr_ratio", "fused_backward"}


def build_optimizer(section: Optimizer, groups: Sequence[ParameterGroup]) -> torch.optim.Optimizer:
    """Build the optimizer over the groups.

    Each parameter group has its component as "part", and as "base_lr" its component's full learning
    rate, which the schedule multiplies.

    Raises:
        UserError: The optimizer's package is missing; names the command to install it.
    """
    made = [each for group in groups for each in _param_groups(section, group)]
    if isinstance(section, CustomOptimizer):
        return build_custom(section, made)
    require_package(section)
    module, name = section.target.split(":")
    # The only place that imports optimizer libraries: some take seconds.
    factory: Callable[..., torch.optim.Optimizer] = getattr(importlib.import_module(module), name)
    if module.startswith("torchao") and not can_compile(groups):
        factory = _uncompiled(factory)
    # Some classes require a learning rate, though every group has its own.
    return factory(made, lr=made[0]["lr"], **arguments_of(section))


def arguments_of(section: Optimizer) -> dict[str, object]:
    """Return the keyword arguments of an optimizer's class, besides its parameters.

    Empty settings are left out, so that the class uses its default.
    """
    values = {key: value for key, value in section if key not in _OWN_KEYS}
    if betas := tuple(values.pop(name) for name in section.betas if name in values):
        values["betas"] = betas
    names = dict(section.names)
    named = {
        argument: value
        for key, value in values.items()
        if value is not None
        for argument in names.get(key, (key,))
    }
    options = dict(section.options).items()
    return named | {k: getattr(torch, v) if isinstance(v, str) else v for k, v in options}


def is_matrix(parameter: nn.Parameter) -> bool:
    """Return whether a parameter has more than one row and more than one column.

    A convolution (o, i, h, w) counts as (o, i * h * w).
    """
    return parameter.ndim > 1 and 1 < parameter.shape[0] < parameter.numel()


def can_compile(groups: Sequence[ParameterGroup]) -> bool:
    """Return whether torch.compile is certain to work: on a GPU with Triton.

    On the CPU it needs a C++ compiler, which few users have, and takes seconds.
    """
    is_on_card = all(weight.is_cuda for group in groups for weight in group.parameters.values())
    return is_on_card and importlib.util.find_spec("triton") is not None


def _param_groups(section: Optimizer, group: ParameterGroup) -> list[dict[str, Any]]:
    """Return a group; for Muon its matrices and the rest, as which token embeddings count."""
    weights, lr = list(group.parameters.values()), (group.lr or section.lr) * group.lr_ratio
    parts: list[tuple[list[nn.Parameter], float, dict[str, bool]]] = [(weights, lr, {})]
    if isinstance(section, Muon):
        matrices = [w for w in weights if group.component != "embeddings" and is_matrix(w)]
        rest = [w for w in weights if group.component == "embeddings" or not is_matrix(w)]
        parts = [
            (matrices, lr, {"use_muon": True}),
            (rest, lr * section.other_lr_ratio, {"use_muon": False}),
        ]
    return [
        {"params": own, "lr": rate, "base_lr": rate, "part": group.component, **options}
        for own, rate, options in parts
        if own
    ]


def _uncompiled(factory: Any) -> Any:  # noqa: ANN401 - a class that is known at run time only
    """Return the same optimizer class with steps that bypass torch.compile."""

    class Uncompiled(factory):  # type: ignore[misc] # the base is chosen at run time
        def step(self, closure: Callable[[], float] | None = None) -> float | None:
            with torch.compiler.set_stance("force_eager"):
                return super().step(closure)  # type: ignore[no-any-return] # base is Any

    # Checkpoints identify the class by name, and may be resumed where it does compile.
    Uncompiled.__name__ = factory.__name__
    return Uncompiled
