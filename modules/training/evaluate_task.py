"""Evaluation between steps: measure, report the verdict, keep the best step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from modules.interfaces import Method
from modules.training.inbox import Inbox
from modules.training.sample_task import TaskProgress, TaskStopped
from modules.training.tasks import SaveTask
from onetrainer.run.checkpoint_files import DamagedCheckpoint
from onetrainer.run.commands import LEAVING
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Event, Phase, PhaseName, Warned


class Evaluation(Protocol):
    """What is measured on data that is not trained, its past, and the verdict on it."""

    @property
    def phase_name(self) -> PhaseName: ...

    @property
    def count(self) -> int:
        """Number of images to measure."""
        ...

    @property
    def keeps_best(self) -> bool:
        """Whether the checkpoint of the best step is kept."""
        ...

    @property
    def prefers_best(self) -> bool:
        """Whether the best weights are the run's main output."""
        ...

    def is_due(self, step: int) -> bool:
        """Return whether the config asks for it after a step."""
        ...

    def is_missing(self, step: int, past_events: Sequence[Event]) -> bool:
        """Return whether it is due before the first step and not reported yet."""
        ...

    @property
    def is_required(self) -> bool:
        """Whether training needs the next measurement."""
        ...

    def measure(self, step: int, before_each: Callable[[int], None]) -> None:
        """Measure and save, unless this was done before, in evaluation mode.

        before_each: Called with the number of images done; may raise to abort.
        """
        ...

    def events(self) -> list[Event]:
        """Return the newest verdicts."""
        ...

    def should_stop_early(self) -> bool: ...

    def best_step(self) -> int | None:
        """Return the step whose checkpoint is kept; None for the base model or if none is."""
        ...

    def summary(self, first: int, step: int, best_files: Sequence[Path]) -> list[str]:
        """Return lines for the end of the run.

        first: First step of this start of the run; step: its last. best_files: Output files of the
        best step.
        """
        ...


@dataclass(frozen=True)
class EvaluateTask:
    """Evaluates, and reports the verdict."""

    evaluation: Evaluation
    steps: int
    method: Method
    log: EventWriter
    inbox: Inbox

    def is_due(self, step: int) -> bool:
        return self.evaluation.is_due(step)

    def begin(self, step: int, past_events: Sequence[Event]) -> None:
        """Make up for a missing evaluation before the first step of a new or resumed run."""
        if self.evaluation.is_missing(step, past_events):
            self._evaluate(step, past_events)

    def run(self, step: int) -> None:
        """Measure and report; neither if the run is to end before its last step."""
        self._evaluate(step, ())

    def in_evaluation_mode(self, take_part: Callable[..., None]) -> Callable[..., None]:
        """Return how a process takes part in what rank 0 measures."""

        def measure(*arguments: int) -> None:
            self.method.train(False)
            try:
                take_part(*arguments)
            finally:
                self.method.train(True)

        return measure

    def _evaluate(self, step: int, reported: Sequence[Event]) -> None:
        # The last one says what the run was worth, and which step is kept.
        ended_by = LEAVING if step < self.steps else ()
        progress = TaskProgress(self.inbox, self.log, ended_by=ended_by)
        name, count = self.evaluation.phase_name, self.evaluation.count
        self.method.train(False)
        try:
            self.evaluation.measure(step, lambda done: progress.report(Phase(name, done, count)))
        except TaskStopped:  # a resumed run repeats it
            return
        finally:
            self.method.train(True)
        for event in self.evaluation.events():
            if event not in reported:
                self.log.write(event)


@dataclass(frozen=True)
class KeepBestTask:
    """Saves a checkpoint of a step that turned out to be the best, if it has none yet."""

    evaluation: Evaluation
    save_task: SaveTask

    def is_due(self, step: int) -> bool:
        return self.evaluation.is_due(step)

    def run(self, step: int) -> None:
        """Save the step, after all other tasks, because a checkpoint includes their events."""
        if self.evaluation.best_step() == step and not self.save_task.has_checkpoint(step):
            self.save_task.checkpoint(step)


def export_best(
    evaluation: Evaluation, save_task: SaveTask, step: int, *, is_final: bool
) -> list[Path]:
    """Write and return the files of the best step, if it was saved and is not the last one.

    Loads the weights of that step: nothing else may be done with them afterwards.
    """
    best = evaluation.best_step()
    if best is None or best >= step or not save_task.has_checkpoint(best):
        return []
    try:
        save_task.restore_for_export(best)
    except DamagedCheckpoint as error:
        text = f"the checkpoint of the best step, {best}, is damaged ({error}): its file is missing"
        save_task.events.write(Warned(text))
        return []
    return save_task.export(best, is_final=is_final, suffix="-best")
