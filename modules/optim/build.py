"""From the optimizer's section of the config to the library's optimizer."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from modules.interfaces import ParameterGroup
from modules.optim.construct import Movable, construct, is_matrix
from onetrainer.config.optimizers.momentum import Muon
from onetrainer.config.optimizers.optimizer import Optimizer, require_package

# Settings of an optimizer section that are no arguments of its class: rates belong to groups.
_OWN_KEYS = {"kind", "lr", "other_lr_ratio", "fused_backward"}


def build_optimizer(section: Optimizer, groups: Sequence[ParameterGroup]) -> torch.optim.Optimizer:
    """The optimizer over the groups, each with its part's learning rate in `base_lr`.

    Raises UserError, naming the command to install it, where the optimizer's package is missing.
    """
    require_package(section)
    movables = [
        Movable(group.part, list(group.parameters.values()), rate)
        for group in groups
        for rate in [(group.lr or section.lr) * group.lr_ratio]
        if group.parameters
    ]
    if isinstance(section, Muon):
        movables = [part for movable in movables for part in _halves(movable, section)]
    return construct(section.target, movables, arguments_of(section))


def arguments_of(section: Optimizer) -> dict[str, object]:
    """What an optimizer's class is given besides its parameters, by the names it has for them.

    Settings that are empty are left out, so that the class has its own way.
    """
    values = {key: value for key, value in section if key not in _OWN_KEYS}
    if section.betas:
        values["betas"] = tuple(values.pop(name) for name in section.betas)
    named = {
        argument: value
        for key, value in values.items()
        if value is not None
        for argument in section.names.get(key, (key,))
    }
    return named | dict(section.options)


def _halves(movable: Movable, section: Muon) -> list[Movable]:
    """The matrices among parameters, and the rest; words stand in rows, but are no matrix."""
    has_matrices = movable.part != "embeddings"
    matrices = [weight for weight in movable.parameters if has_matrices and is_matrix(weight)]
    rest = [weight for weight in movable.parameters if not (has_matrices and is_matrix(weight))]
    halves = (
        replace(movable, parameters=matrices, is_matrix=True),
        replace(movable, parameters=rest, lr=movable.lr * section.other_lr_ratio, is_matrix=False),
    )
    return [half for half in halves if half.parameters]
