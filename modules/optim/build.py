"""Construction of the library's optimizer from the optimizer's config section."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from modules.interfaces import ParameterGroup
from modules.optim.construct import OptimizerGroup, construct, is_matrix
from onetrainer.config.optimizers.momentum import Muon
from onetrainer.config.optimizers.optimizer import Optimizer, require_package

# Settings of an optimizer section that are no arguments of its class; learning rates are per group.
_OWN_KEYS = {"kind", "lr", "other_lr_ratio", "fused_backward"}


def build_optimizer(section: Optimizer, groups: Sequence[ParameterGroup]) -> torch.optim.Optimizer:
    """Build the optimizer over the groups, each with its component's learning rate as `base_lr`.

    Raises:
        UserError: The optimizer's package is missing; names the command to install it.
    """
    require_package(section)
    rate_groups = [
        OptimizerGroup(group.component, list(group.parameters.values()), rate)
        for group in groups
        for rate in [(group.lr or section.lr) * group.lr_ratio]
        if group.parameters
    ]
    if isinstance(section, Muon):
        rate_groups = [half for group in rate_groups for half in _split_matrices(group, section)]
    return construct(section.target, rate_groups, arguments_of(section))


def arguments_of(section: Optimizer) -> dict[str, object]:
    """Return the keyword arguments of an optimizer's class, besides its parameters.

    Empty settings are left out, so that the class uses its default.
    """
    values = {key: value for key, value in section if key not in _OWN_KEYS}
    if betas := tuple(values.pop(name) for name in section.betas if name in values):
        values["betas"] = betas
    named = {
        argument: value
        for key, value in values.items()
        if value is not None
        for argument in section.names.get(key, (key,))
    }
    return named | dict(section.options)


def _split_matrices(rate_group: OptimizerGroup, section: Muon) -> list[OptimizerGroup]:
    """Split a group into matrices, for Muon, and the rest; token embeddings are no matrices."""
    has_matrices = rate_group.component != "embeddings"
    matrices = [weight for weight in rate_group.parameters if has_matrices and is_matrix(weight)]
    rest = [weight for weight in rate_group.parameters if not (has_matrices and is_matrix(weight))]
    halves = (
        replace(rate_group, parameters=matrices, is_matrix=True),
        replace(
            rate_group, parameters=rest, lr=rate_group.lr * section.other_lr_ratio, is_matrix=False
        ),
    )
    return [half for half in halves if half.parameters]
