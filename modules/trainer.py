"""The training loop: read this first."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, Protocol, TypeVar

import torch

from modules import seeds
from modules.interfaces import Loss, Method, Objective
from modules.optim.construct import set_lr
from modules.optim.ema import Ema
from modules.optim.optimizer_state import effective_lr
from modules.training.checkpoints import TrainState
from modules.training.engine import Engine
from modules.training.inbox import Inbox
from modules.training.reporter import Reporter


class Task(Protocol):
    """Something besides steps that a run does: validate, sample, save."""

    def is_due(self, step: int) -> bool:
        """Whether it is time, after so many steps."""
        ...

    def run(self, step: int) -> None: ...


Given = TypeVar("Given")
Handed = TypeVar("Handed", covariant=True)


class StepBatches(Protocol[Handed]):
    """Where the microbatches of each step come from: a function of the step alone."""

    def at(self, step: int) -> Iterable[Handed]: ...
    def epoch_of(self, step: int) -> int: ...


class StepAbandoned(Exception):
    """The run is to end, and the step that was begun takes so long that it is given up.

    Nothing has been moved; a resumed run makes the step anew. Raised where its batches or its loss
    come from.
    """


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Trainer(Generic[Given]):
    """Everything the loop needs, whatever a microbatch is.

    lr_multiplier: a step's learning rate as a share of the full one. ema: None if no average of
    the weights is wanted. has_enough: whether there is no use in going on.
    tasks: in their order; the one that saves comes last, so that a checkpoint of a step follows
    everything else that belongs to the step.
    """

    state: TrainState
    steps: int
    seed: int
    batches: StepBatches[Given]
    objective: Objective[Given]
    method: Method
    engine: Engine
    optimizer: torch.optim.Optimizer
    lr_multiplier: Callable[[int], float]
    ema: Ema | None
    report: Reporter
    inbox: Inbox
    tasks: Sequence[Task]
    has_enough: Callable[[], bool] = _never

    def run(self) -> Literal["done", "stop", "pause"]:
        """Trains until the last step is made, there is no use in more, or somebody asks to end."""
        state = self.state
        self.report.start_clock(state.step)
        while not (self._is_done() or self.inbox.is_leaving()):
            set_lr(self.optimizer, self.lr_multiplier(state.step))
            rate = effective_lr(self.optimizer)
            self.engine.begin(state.step)
            try:
                losses = self._accumulate(state.step)
            except StepAbandoned:
                break
            self.engine.step()
            state.step += 1
            self.method.after_step()
            if self.ema is not None:
                self.ema.update(state.step)
            self.report.progress(
                step=state.step,
                epoch=self.batches.epoch_of(state.step - 1),
                lr=rate,
                losses=losses,
            )
            self._do_tasks(state.step)
        self.report.flush()
        return "done" if self._is_done() else self.inbox.leaving or "stop"

    def _is_done(self) -> bool:
        return self.state.step >= self.steps or self.has_enough()

    def _accumulate(self, step: int) -> list[Loss]:
        """Adds up the gradients of a step's microbatches; returns what there is to tell of them."""
        losses = []
        for number, batch in enumerate(self.batches.at(step)):
            # Dropout is the one thing that draws from torch's own generator: a draw for each
            # microbatch, so that it is the one thing that depends on how a step is cut.
            torch.manual_seed(seeds.derive(self.seed, "dropout", step, number))
            with self.engine.autocast():
                loss = self.objective.loss(batch, seed=self.seed, step=step)
            self.engine.backward(loss.value)
            losses.append(replace(loss, value=loss.value.detach()))
        return losses

    def _do_tasks(self, step: int) -> None:
        due = [task for task in self.tasks if task.is_due(step)]
        if not due:
            return
        self.report.flush()
        for task in due:
            task.run(step)
        if step < self.steps:
            self.report.start_clock(step)
