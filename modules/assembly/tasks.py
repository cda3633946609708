"""Tasks between steps that are measured, and those without which a run goes on."""

from dataclasses import dataclass
from time import monotonic

from modules.trainer import Task
from modules.training.failures import Failures
from modules.training.time_left import TaskTimes


@dataclass(frozen=True)
class TimedTask:
    """A task that is measured."""

    task: Task
    times: TaskTimes

    def is_due(self, step: int) -> bool:
        return self.task.is_due(step)

    def run(self, step: int) -> None:
        began = monotonic()
        self.task.run(step)
        self.times.count += 1
        self.times.seconds += monotonic() - began


@dataclass(frozen=True)
class ToleratedTask:
    """A task whose failure does not end the run.

    Attributes:
        what: As for `Failures.tolerated`.
    """

    task: Task
    what: str
    failures: Failures

    def is_due(self, step: int) -> bool:
        return self.task.is_due(step)

    def run(self, step: int) -> None:
        with self.failures.tolerated(self.what):
            self.task.run(step)
