"""Evaluation form of the weights of schedule-free optimizers.

They compute gradients at one point (y), and the good weights are another, the average (x), which
samples, evaluations and exports must use. Source: Defazio et al. 2024, arXiv:2405.15682.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import torch

from modules.optim.swapped_weights import restoring
from modules.optim.update import WeightUpdater


@runtime_checkable
class Switching(Protocol):
    """An optimizer that switches its weights between two forms."""

    def train(self) -> None: ...
    def eval(self) -> None: ...


def enter_training_form(optimizer: torch.optim.Optimizer) -> None:
    """Prepare for the first step, which some refuse otherwise; no effect after a restore."""
    if isinstance(optimizer, Switching):
        optimizer.train()


@contextmanager
def evaluation_form(
    updater: WeightUpdater, normalize: Callable[[], None] | None = None
) -> Iterator[None]:
    """Bring the weights into the form for use, and restore them exactly on exit.

    The optimizers' own conversion back, x to y, rounds: a run that generates samples would train
    differently from one that does not.

    Args:
        updater: Whose weights are converted.
        normalize: Called once the weights are the average, to do what follows each training step.
    """
    optimizer = updater.optimizer
    if not isinstance(optimizer, Switching):
        yield
        return
    with restoring(updater.parameters):
        with torch.no_grad(), updater.in_float32():
            optimizer.eval()
        try:
            if normalize is not None:
                normalize()
            yield
        finally:
            with torch.no_grad(), updater.in_float32():
                optimizer.train()
