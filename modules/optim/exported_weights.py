"""The forms of the weights that samples and finished files use.

A form that cannot be left again raises `NotRestored`: training must not go on from what is left.

Schedule-free optimizers compute gradients at one point (y), and the good weights are another, the
average (x), which samples, evaluations and exports must use. Source: Defazio et al. 2024,
arXiv:2405.15682.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from modules.optim.ema import Ema, restoring
from modules.optim.update import WeightUpdater
from onetrainer.errors import StateLost


class NotRestored(StateLost):
    """The weights of the last step could not be restored."""

    failure = ""  # that of its cause


@dataclass(frozen=True)
class ExportedWeights:
    """Context managers that bring weights into a form, and restore them exactly on exit.

    ema: None without an EMA. normalize: what the method does after each step; applied to averaged
    weights as well, since an average of vectors is shorter than each of them. gathered: Makes this
    process compute with the whole weights, where it has only a part of them.
    """

    updater: WeightUpdater
    ema: Ema | None
    normalize: Callable[[], None]
    gathered: Callable[[], AbstractContextManager[None]] = nullcontext

    def for_samples(self) -> AbstractContextManager[None]:
        """Apply the EMA, if there is one."""
        if self.ema is None:
            return self.without_ema()
        return _left(self.ema.applied(self.normalize), self.gathered)

    def for_files(self) -> AbstractContextManager[None]:
        """Apply the EMA in full precision, read-only.

        It may be on another device than the weights, and is not normalized.
        """
        if self.ema is None:
            return _left(evaluation_form(self.updater, self.normalize))
        return _left(self.ema.applied_float32())

    def without_ema(self) -> AbstractContextManager[None]:
        """Use the weights of the last step."""
        return _left(evaluation_form(self.updater, self.normalize), self.gathered)


@contextmanager
def _left(
    form: AbstractContextManager[None],
    gathered: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(form)
        stack.enter_context(gathered())
        try:
            yield
        finally:
            try:
                stack.close()
            except Exception as error:
                raise NotRestored(
                    "the trained weights could not be restored after they were used",
                    "The last checkpoint is as it was",
                    "Resume the run; if this happens again, let it use less memory.",
                ) from error


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
