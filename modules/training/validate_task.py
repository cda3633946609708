"""What a run does to know how well it does on what it does not learn: measure, tell, keep the best.

Measured are the weights that samples show and finished files hold: it is those of which the best
are wanted. Where these are an average, the weights of the last step may be measured beside them.
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
from modules.optim.exported_weights import ShownWeights
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
    judge,
    loss_words,
    when,
    without_gain,
)
from onetrainer.metrics.validation_files import ValidationFiles, Weights
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Event, Phase, Validated
from onetrainer.run.run_folder import RunFolder

_SECONDS_PER_PHASE = 1.0


class _ValidationStopped(Exception):
    """The run is to end; what was begun is measured when it is resumed."""


@dataclass(frozen=True)
class ValidateTask:
    """Measures the held-out loss: at the start, every so many steps or epochs, at the end.

    at_once: so many noises of a picture are computed at once. measures_both: whether the weights of
    the last step are measured beside their average. files: what was measured before. epoch_of:
    which pass over the pictures a step belongs to, from 0. phase: puts parts where they are needed.
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
    shown: ShownWeights
    measures_both: bool
    files: ValidationFiles
    epoch_of: Callable[[int], int]
    events: EventWriter
    inbox: Inbox
    phase: Enter

    @property
    def keeps_best(self) -> bool:
        """Whether the checkpoint of the best step is kept."""
        return self.section.keep_best

    def is_due(self, step: int) -> bool:
        """Whether the config wants the loss after so many steps."""
        section = self.section
        if step == 0:
            return section.at_start
        return self._is_periodic(step) or (section.at_end and step == self.steps)

    def begin(self, step: int, kept: Sequence[Event]) -> None:
        """Before the first step, or the next one of a resumed run: measures what is missing.

        kept: what the run has told up to here. Files may hold what was measured and not told.
        """
        told = {one.weights for one in kept if isinstance(one, Validated) and one.step == step}
        if self.is_due(step) and not told.issuperset(self._kinds):
            self._validate(step, [kind for kind in self._kinds if kind not in told])

    def run(self, step: int) -> None:
        """Measures and tells; does neither if asked to end before the run's last step."""
        self._validate(step, self._kinds)

    def has_enough(self) -> bool:
        """Whether patience is at its end: so many measurements in a row brought nothing."""
        patience = self.section.patience
        return 0 < patience <= without_gain(self.files.history("shown"))

    def best_step(self) -> int | None:
        """The step whose checkpoint is to be kept; None if none is."""
        return kept_step(self.section, self.files)

    def summary(self, first: int, step: int, best_files: Sequence[Path]) -> list[str]:
        """What there is to say at the end. first: the step that this time began at, step: the last.

        best_files: those of the best step.
        """
        history = self.files.history("shown")
        if not history:
            return []
        best, newest = best_of(history), history[-1]
        lines = []
        if step < self.steps and self.has_enough():
            if first == step:
                lines.append("Nothing was done: the run had stopped early before, and still would.")
            lines.append(_early_words(step, without_gain(history), best.step))
        loss = loss_words(best.loss)
        if best is not newest:
            lines.append(
                f"The held-out loss was best {when(best.step)}, {loss}; the last one"
                f" ({loss_words(newest.loss)}) is {compared(newest.loss, best.loss)} it."
            )
        elif len(history) > 1:
            gain = compared(best.loss, history[0].loss)
            lines.append(f"The last held-out loss, {loss}, is the best: {gain} the first.")
        if best_files:
            lines.append(f"{best_files[0].name} holds the weights of step {best.step:,}.")
        return lines

    def _is_periodic(self, step: int) -> bool:
        every = self.section.every
        if every == 0:
            return False
        if self.section.unit == "steps":
            return step % every == 0
        begun = self.epoch_of(step)  # by the next step; so many are whole
        return begun > self.epoch_of(step - 1) and begun % every == 0

    def _validate(self, step: int, untold: Sequence[Weights]) -> None:
        if not self.files.has(step, self._kinds):
            try:
                losses = self._measured(step)
            except _ValidationStopped:
                return
            self.files.add(step, losses, noises=self.grid.noises)
        for weights in untold:
            self.events.write(self._told(weights))

    def _measured(self, step: int) -> dict[Weights, dict[str, list[float]]]:
        """The losses of every picture by weights, in evaluation mode."""
        forms = {"shown": self.shown.final, "last": self.shown.last}
        losses: dict[Weights, dict[str, list[float]]] = {}
        progress = _Progress(self, step)
        self.method.train(False)
        try:
            with self.phase("validation"):
                for number, weights in enumerate(self._kinds):
                    with forms[weights]():
                        losses[weights] = measure(
                            self.images,
                            self.grid,
                            objective=self.objective,
                            autocast=self.engine.autocast,
                            at_once=self.at_once,
                            before_each=partial(progress.tell, number * len(self.images.names)),
                            is_untrained=step == 0,
                            precision=self.precision,
                        )
        finally:
            self.method.train(True)
        return losses

    def _told(self, weights: Weights) -> Validated:
        history = self.files.history(weights)
        found = judge(history)
        return Validated(
            step=history[-1].step,
            loss=found.loss.mean,
            error=found.loss.error or 0.0,
            images=len(self.images.names),
            best_step=found.best_step,
            is_best=found.is_best,
            verdict=found.verdict,
            words=found.words,
            since_start=_mean(found.since_start),
            since_start_error=_error(found.since_start),
            since_best=_mean(found.since_best),
            since_best_error=_error(found.since_best),
            by_concept=by_concept(history[-1], self.images.concepts),
            concepts=by_concepts(history, self.images.concepts),
            by_level=found.by_level,
            weights=weights,
        )

    @property
    def _kinds(self) -> tuple[Weights, ...]:
        return ("shown", "last") if self.measures_both else ("shown",)


class _Progress:
    """Tells how far a validation is, and ends it if the run is to end."""

    def __init__(self, task: ValidateTask, step: int) -> None:
        self._task = task
        self._step = step
        self._last_told: float | None = None

    def tell(self, before: int, done: int) -> None:
        """Before each picture. before, done: how many of other weights, and of these."""
        task = self._task
        if task.inbox.is_leaving() and self._step < task.steps:
            raise _ValidationStopped
        now = monotonic()
        if self._last_told is None or now - self._last_told > _SECONDS_PER_PHASE:
            self._last_told = now
            total = len(task.images.names) * (2 if task.measures_both else 1)
            task.events.write(Phase("validating", before + done, total))


class FindsBest(Protocol):
    """What knows by its own measure which step was the best."""

    @property
    def keeps_best(self) -> bool:
        """Whether the best is to be kept."""
        ...

    def is_due(self, step: int) -> bool:
        """Whether a step is measured."""
        ...

    def best_step(self) -> int | None:
        """The best so far; None if none is to be kept."""
        ...


@dataclass(frozen=True)
class KeepBestTask:
    """Saves a checkpoint of a step that turned out to be the best, if it has none yet."""

    finding: FindsBest
    saving: SaveTask
    folder: RunFolder

    def is_due(self, step: int) -> bool:
        return self.finding.keeps_best and self.finding.is_due(step)

    def run(self, step: int) -> None:
        """After everything else of the step, as a checkpoint is to hold all of it."""
        if self.finding.best_step() == step and not _has_checkpoint(self.folder, step):
            self.saving.checkpoint(step)


def kept_step(section: Validation, files: ValidationFiles | None) -> int | None:
    """The step whose checkpoint is to be kept; None if none is: before training there is none."""
    if files is None or not section.keep_best:
        return None
    return files.best_step() or None


def export_best(finding: FindsBest, saving: SaveTask, step: int, *, is_final: bool) -> list[Path]:
    """Writes the files of the best step, if it is not the last one and was kept; which ones.

    The weights are then those of that step: to be called when nothing else is to be done with them.
    """
    best = finding.best_step()
    if best is None or best >= step or not _has_checkpoint(saving.folder, best):
        return []
    saving.take_back(best)
    return saving.export(best, is_final=is_final, suffix="-best")


def _early_words(step: int, count: int, best: int) -> str:
    validations = f"{count} validations in a row were" if count > 1 else "a validation was"
    return (
        f"Stopped early after step {step:,}: {validations} no better than {when(best)}. To go on,"
        ' raise validation.patience ("Stop early after") in the run\'s config.json and resume it.'
    )


def _has_checkpoint(folder: RunFolder, step: int) -> bool:
    return step in [made for made, _ in folder.complete_checkpoints()]


def _mean(band: Band | None) -> float | None:
    return None if band is None else band.mean


def _error(band: Band | None) -> float | None:
    return None if band is None else band.error
