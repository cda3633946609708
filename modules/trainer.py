"""The training loop. Start reading here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import torch

from modules.optim.learning_rate import effective_lr, set_lr
from onetrainer.schedules.amounts import Plan

if TYPE_CHECKING:
    from modules.optim.ema import Ema
    from modules.stepping.eager import Step
    from modules.training.checkpoints import TrainState
    from modules.training.engine import Engine
    from modules.training.inbox import Inbox
    from modules.training.reporter import Reporter
    from modules.world.world import World
    from onetrainer.run.commands import Leaving


STEP = "step"
"""The order to make a step together."""


class Task(Protocol):
    """Work between two steps: validation, sampling, saving."""

    def is_due(self, step: int) -> bool:
        """Return whether the task runs after `step` steps."""
        ...

    def run(self, step: int) -> None: ...


class StepAbandoned(Exception):
    """The run ends in the middle of a step, before any weight was updated.

    Raised by batches or by an objective whose step takes minutes. A resumed run repeats the step.
    """


@dataclass(frozen=True)
class Trainer:
    """Everything that the loop needs.

    Attributes:
        seed_of: Maps a step to the seed of its random draws.
        plan: Of the run's steps.
        compute: Computes a step's losses and updates the weights.
        lr_multiplier: Maps a step to a fraction of the full learning rate.
        ema: None if the run keeps no EMA.
        tasks: Run in this order after a step; saving comes last, so that the checkpoint of a step
            includes everything else that belongs to the step.
        world: The processes that share the steps; rank 0 runs the loop, the others `step` alone.
        should_stop_early: Returns whether further steps are of no use.
    """

    state: "TrainState"
    steps: int
    seed_of: Callable[[int], int]
    plan: Plan
    compute: "Step"
    engine: "Engine"
    optimizer: torch.optim.Optimizer
    lr_multiplier: Callable[[int], float]
    ema: "Ema | None"
    report: "Reporter"
    inbox: "Inbox"
    tasks: Sequence[Task]
    world: "World"
    should_stop_early: Callable[[], bool] = lambda: False

    def run(self) -> "Literal['done'] | Leaving":
        """Train until the last step, early stopping, or a command to end the run."""
        self.report.start_clock(self.state.step)
        while not (self._is_done() or self.inbox.is_leaving()):
            self.world.call(STEP)
            try:
                self.step()
            except StepAbandoned:
                break
            self._run_due_tasks(self.state.step)
        self.report.flush()
        leaving = self.inbox.leaving
        # A pause after the last step may leave samples to a resumed run, which then finishes.
        is_over = self._is_done() and leaving in (None, "stop")
        return "done" if is_over else leaving or "stop"

    def step(self) -> None:
        """Make a step, the same one in every process.

        Raises:
            StepAbandoned: If the run is to end in the middle of it.
        """
        step = self.state.step
        set_lr(self.optimizer, self.lr_multiplier(step))
        lr = effective_lr(self.optimizer)
        self.engine.begin(step)
        done = self.compute(step, seed=self.seed_of(step))
        self.state.step += 1
        if self.ema is not None:
            self.ema.update(self.state.step)
        self.state.is_whole = True
        if done.losses:  # in rank 0, which reports for all
            epoch = self.plan.epoch_of(step)
            self.report.progress(
                step=self.state.step, epoch=epoch, lr=lr, losses=done.losses, check=done.check
            )

    def _is_done(self) -> bool:
        return self.state.step >= self.steps or self.should_stop_early()

    def _run_due_tasks(self, step: int) -> None:
        due = [task for task in self.tasks if task.is_due(step)]
        if not due:
            return
        self.report.flush()
        for task in due:
            task.run(step)
        if step < self.steps:
            self.report.start_clock(step)
