"""The evaluation form of schedule-free optimizers.

They compute gradients at one point (y) and are good at another, the average (x): what is drawn,
measured or exported has to be x. Source: Defazio et al. 2024, arXiv:2405.15682.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import torch

from modules.optim.swapped_weights import put_back
from modules.optim.update import Movement


@runtime_checkable
class Switching(Protocol):
    """An optimizer that switches its weights between two forms."""

    def train(self) -> None: ...
    def eval(self) -> None: ...


def enter_training_form(optimizer: torch.optim.Optimizer) -> None:
    """Before the first step: some refuse to make one otherwise. Changes nothing after a restore."""
    if isinstance(optimizer, Switching):
        optimizer.train()


@contextmanager
def evaluation_form(movement: Movement, keep: Callable[[], None] | None = None) -> Iterator[None]:
    """Within, the weights are what is to be used; after, exactly what they were.

    keep: changes the weights, once they are an average, into what they have to be.

    The optimizers' own way back, x to y, rounds: a run that draws samples would train other weights
    than one that does not.
    """
    optimizer = movement.optimizer
    if not isinstance(optimizer, Switching):
        yield
        return
    with put_back(movement.parameters):
        with torch.no_grad(), movement.widened():
            optimizer.eval()
        try:
            if keep is not None:
                keep()
            yield
        finally:
            with torch.no_grad(), movement.widened():
                optimizer.train()
