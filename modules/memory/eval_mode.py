"""Evaluation mode for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluation(*parts: nn.Module) -> Iterator[None]:
    """Evaluation mode, and afterwards each module's own mode again."""
    # By hand: `eval` and back would take half as long as merging all adapters of a model.
    training = [module for part in parts for module in part.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
