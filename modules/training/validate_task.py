"""Validation during training: measure the validation loss, report it, find the best step.

Uses the weights that samples and output files use, because the best of those are wanted. Where
these are an EMA, the weights of the last step may be measured too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Protocol

from modules.evaluation.validation import Grid, ValidationImages, measure
from modules.interfaces import Batch, Method, Objective
from modules.memory.residency import Enter
from modules.optim.exported_weights import ExportedWeights
from modules.training.engine import Engine
from modules.training.inbox import Inbox
from modules.training.tasks import SaveTask
from onetrainer.config.run.hardware import Precision
from onetrainer.config.run.validation import Validation
from onetrainer.metrics.validation import (
    Band,
    best_of,
    by_concept,
    by_concepts,
    compared,
    format_loss,
    judge,
    when,
    without_gain,
)
from onetrainer.metrics.validation_files import ValidationFiles, Weights
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Event, Phase, Validated
from onetrainer.run.run_folder import RunFolder

_SECONDS_PER_PHASE = 1.0


class _ValidationStopped(Exception):
    """The run is to end; a resumed run repeats the validation."""


@dataclass(frozen=True)
class ValidateTask:
    """Measures the validation loss: at the start, every so many steps or epochs, at the end.

    Attributes:
        at_once: Number of an image's noises in one batch.
        measures_last_weights: Whether the last step's weights are measured besides their EMA.
        files: Past measurements.
        epoch_of: Maps a step to its epoch, from 0.
        phase: Places the model's components for a phase.
    """

    section: Validation
    steps: int
    images: ValidationImages
    grid: Grid
    precision: Precision
    at_once: int
    objective: Objective[Batch]
    method: Method
    engine: Engine
    exported: ExportedWeights
    measures_last_weights: bool
    files: ValidationFiles
    epoch_of: Callable[[int], int]
    events: EventWriter
    inbox: Inbox
    phase: Enter

    @property
    def saves_best(self) -> bool:
        """Whether the checkpoint of the best step is kept."""
        return self.section.keep_best

    def is_due(self, step: int) -> bool:
        """Return whether the config asks for the validation loss after a step."""
        section = self.section
        if step == 0:
            return section.at_start
        return self._is_periodic(step) or (section.at_end and step == self.steps)

    def begin(self, step: int, past_events: Sequence[Event]) -> None:
        """Run a missing validation before the first step of a new or resumed run.

        The files may hold measurements that were not reported.

        past_events: Events of the run up to here.
        """
        reported = {
            event.weights
            for event in past_events
            if isinstance(event, Validated) and event.step == step
        }
        unreported = [weights for weights in self._weight_forms if weights not in reported]
        if self.is_due(step) and unreported:
            self._validate(step, unreported)

    def run(self, step: int) -> None:
        """Measure and report; neither if the run is to end before its last step."""
        self._validate(step, self._weight_forms)

    def should_stop_early(self) -> bool:
        """Return whether the patience is used up: as many measurements in a row without gain."""
        patience = self.section.patience
        return 0 < patience <= without_gain(self.files.history("shown"))

    def best_step(self) -> int | None:
        """Return the step whose checkpoint is kept; None if none is."""
        return saved_best_step(self.section, self.files)

    def summary(self, first: int, step: int, best_files: Sequence[Path]) -> list[str]:
        """Return lines for the end of the run.

        first: First step of this start of the run; step: its last.
        best_files: Output files of the best step.
        """
        history = self.files.history("shown")
        if not history:
            return []
        best, newest = best_of(history), history[-1]
        lines = []
        if step < self.steps and self.should_stop_early():
            if first == step:
                lines.append("Nothing was trained: the run had stopped early before.")
            lines.append(_early_stop_message(step, without_gain(history), best.step))
        loss = format_loss(best.loss)
        if best is not newest:
            lines.append(
                f"The validation loss was best {when(best.step)}, {loss}; the last one"
                f" ({format_loss(newest.loss)}) is {compared(newest.loss, best.loss)} it."
            )
        elif len(history) > 1:
            gain = compared(best.loss, history[0].loss)
            lines.append(f"The last validation loss, {loss}, is the best: {gain} the first.")
        if best_files:
            lines.append(f"{best_files[0].name} holds the weights of step {best.step:,}.")
        return lines

    def _is_periodic(self, step: int) -> bool:
        every = self.section.every
        if every == 0:
            return False
        if self.section.unit == "steps":
            return step % every == 0
        completed = self.epoch_of(step)  # epoch of the next step
        return completed > self.epoch_of(step - 1) and completed % every == 0

    def _validate(self, step: int, unreported: Sequence[Weights]) -> None:
        if not self.files.has(step, self._weight_forms):
            try:
                losses = self._measure(step)
            except _ValidationStopped:
                return
            self.files.add(step, losses, noises=self.grid.noises)
        for weights in unreported:
            self.events.write(self._event(weights))

    def _measure(self, step: int) -> dict[Weights, dict[str, list[float]]]:
        """Return the losses of every image by weights, in evaluation mode."""
        forms = {"shown": self.exported.for_samples, "last": self.exported.without_ema}
        losses: dict[Weights, dict[str, list[float]]] = {}
        progress = _Progress(self, step)
        self.method.train(False)
        try:
            with self.phase("validation"):
                for number, weights in enumerate(self._weight_forms):
                    with forms[weights]():
                        losses[weights] = measure(
                            self.images,
                            self.grid,
                            objective=self.objective,
                            autocast=self.engine.autocast,
                            at_once=self.at_once,
                            before_each=partial(progress.report, number * len(self.images.names)),
                            is_untrained=step == 0,
                            precision=self.precision,
                        )
        finally:
            self.method.train(True)
        return losses

    def _event(self, weights: Weights) -> Validated:
        history = self.files.history(weights)
        summary = judge(history)
        return Validated(
            step=history[-1].step,
            loss=summary.loss.mean,
            error=summary.loss.error or 0.0,
            images=len(self.images.names),
            best_step=summary.best_step,
            is_best=summary.is_best,
            verdict=summary.verdict,
            words=summary.words,
            since_start=_mean(summary.since_start),
            since_start_error=_error(summary.since_start),
            since_best=_mean(summary.since_best),
            since_best_error=_error(summary.since_best),
            by_concept=by_concept(history[-1], self.images.concepts),
            concepts=by_concepts(history, self.images.concepts),
            by_level=summary.by_level,
            weights=weights,
        )

    @property
    def _weight_forms(self) -> tuple[Weights, ...]:
        return ("shown", "last") if self.measures_last_weights else ("shown",)


class _Progress:
    """Reports progress, and aborts the validation if the run is to end."""

    def __init__(self, task: ValidateTask, step: int) -> None:
        self._task = task
        self._step = step
        self._last_report: float | None = None

    def report(self, before: int, done: int) -> None:
        """Report progress before each image.

        before, done: Images done with other weights, and with these.
        """
        task = self._task
        if task.inbox.is_leaving() and self._step < task.steps:
            raise _ValidationStopped
        now = monotonic()
        if self._last_report is None or now - self._last_report > _SECONDS_PER_PHASE:
            self._last_report = now
            total = len(task.images.names) * (2 if task.measures_last_weights else 1)
            task.events.write(Phase("validating", before + done, total))


class BestStepSource(Protocol):
    """A task that knows the best step by its own measure."""

    @property
    def saves_best(self) -> bool:
        """Whether the checkpoint of the best step is kept."""
        ...

    def is_due(self, step: int) -> bool:
        """Return whether a step is measured."""
        ...

    def best_step(self) -> int | None:
        """Return the best step so far; None if none is kept."""
        ...


@dataclass(frozen=True)
class KeepBestTask:
    """Saves a checkpoint of a step that turned out to be the best, if it has none yet."""

    source: BestStepSource
    save_task: SaveTask
    folder: RunFolder

    def is_due(self, step: int) -> bool:
        return self.source.saves_best and self.source.is_due(step)

    def run(self, step: int) -> None:
        """Save the step, after all other tasks, because a checkpoint includes their events."""
        if self.source.best_step() == step and not _has_checkpoint(self.folder, step):
            self.save_task.checkpoint(step)


def saved_best_step(section: Validation, files: ValidationFiles | None) -> int | None:
    """Return the step whose checkpoint is kept; None for the base model or if none is."""
    if files is None or not section.keep_best:
        return None
    return files.best_step() or None


def export_best(
    source: BestStepSource, save_task: SaveTask, step: int, *, is_final: bool
) -> list[Path]:
    """Write and return the files of the best step, if it was saved and is not the last one.

    Loads the weights of that step: nothing else may be done with them afterwards.
    """
    best = source.best_step()
    if best is None or best >= step or not _has_checkpoint(save_task.folder, best):
        return []
    save_task.restore_for_export(best)
    return save_task.export(best, is_final=is_final, suffix="-best")


def _early_stop_message(step: int, count: int, best: int) -> str:
    validations = f"{count} validations in a row were" if count > 1 else "a validation was"
    return (
        f"Stopped early after step {step:,}: {validations} no better than {when(best)}. To go on,"
        ' raise validation.patience ("Early stopping after") in the run\'s config.json and resume'
        " it."
    )


def _has_checkpoint(folder: RunFolder, step: int) -> bool:
    return step in [made for made, _ in folder.complete_checkpoints()]


def _mean(band: Band | None) -> float | None:
    return None if band is None else band.mean


def _error(band: Band | None) -> float | None:
    return None if band is None else band.error
