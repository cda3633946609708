"""State of a run, built from its events."""

from dataclasses import dataclass, field
from typing import Literal

from onetrainer.run.client import WorkerExit
from onetrainer.run.events import (
    BrokenStep,
    Checkpoint,
    Evaluated,
    Event,
    Failed,
    Finished,
    Measured,
    Phase,
    Progress,
    Rewarded,
    Sample,
    Started,
    Stopped,
    Validated,
    Warned,
)
from ui.progress.curve import Curve
from ui.progress.figures import Figures
from ui.progress.rewards import Rewards
from ui.progress.validation import Validation

Status = Literal["starting", "running", "finished", "stopped", "paused", "failed", "died"]

_MAX_WARNINGS = 20
_PHASE_LABELS = {
    "waiting": "Waiting",
    "loading": "Loading the model",
    "caching": "Encoding images and captions",
    "training": "Training",
    "validating": "Validating",
    "evaluating": "Evaluating prompts",
    "sampling": "Generating samples",
    "saving": "Saving",
    "captioning": "Describing images",
}


@dataclass
class RunState:
    """Newest events of a run, its curves, validations, evaluations and samples."""

    started: Started | None = None
    phase: Phase | None = None
    progress: Progress | None = None
    curve: Curve = field(default_factory=Curve)
    figures: Figures = field(default_factory=Figures)
    validation: Validation = field(default_factory=Validation)
    rewards: Rewards = field(default_factory=Rewards)
    samples: list[Sample] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    ending: Finished | Stopped | Failed | None = None
    unexpected_exit: WorkerExit | None = None

    def apply(self, event: Event) -> None:
        """Apply one event."""
        match event:
            case Started():
                self.started, self.ending, self.unexpected_exit = event, None, None
            case Phase():
                self.phase = event
            case Progress():
                self.progress = event
                self.curve.append(event.step, event.loss)
                self.figures.add_step(event)
            case Measured():
                self.figures.add_measured(event)
            case Validated():
                self.validation.add(event)
            case Rewarded():
                self.rewards.add_step(event)
            case Evaluated():
                self.rewards.add_evaluation(event)
            case Sample():
                self.samples.append(event)
            case Checkpoint():
                self.checkpoints.append(event)
            case BrokenStep(message=text) | Warned(text=text):
                self.warnings = [*self.warnings, text][-_MAX_WARNINGS:]
            case Finished() | Stopped() | Failed():
                self.ending = event

    @property
    def status(self) -> Status:
        """Status of the run in one word."""
        match self.ending:
            case Finished():
                return "finished"
            case Stopped(reason="pause"):
                return "paused"
            case Stopped():
                return "stopped"
            case Failed():
                return "failed"
        if self.unexpected_exit is not None:
            return "died"
        return "running" if self.started is not None else "starting"

    @property
    def step(self) -> int:
        """Number of steps made."""
        if isinstance(self.ending, Finished | Stopped):
            return self.ending.step
        if self.progress is not None:
            return self.progress.step
        return self.started.step if self.started else 0

    @property
    def total_steps(self) -> int:
        """Number of steps of the run; 0 while unknown."""
        event = self.progress or self.started
        return event.total_steps if event else 0

    @property
    def is_early_end(self) -> bool:
        """Whether the run finished before its last step, through validation or the guard."""
        return isinstance(self.ending, Finished) and self.step < self.total_steps

    @property
    def is_guarded_end(self) -> bool:
        """Whether the guard ended the run before its last step."""
        newest = self.rewards.newest
        return self.is_early_end and newest is not None and newest.stops

    @property
    def fraction(self) -> float:
        """Finished fraction of the run, 0 to 1."""
        return min(1.0, self.step / self.total_steps) if self.total_steps else 0.0

    @property
    def outputs(self) -> list[str]:
        """Files that the run has written, relative to its folder."""
        return self.ending.outputs if isinstance(self.ending, Finished | Stopped) else []

    def status_text(self) -> str:
        """Return what the run is doing, for the status line."""
        if self.is_early_end:
            return "Stopped by the guard" if self.is_guarded_end else "Ended early"
        match self.status:
            case "starting":
                return "Starting"
            case "running":
                return phase_text(self.phase) if self.phase else "Starting"
            case "died":
                return "Stopped unexpectedly"
            case status:
                return status.capitalize()


def phase_text(phase: Phase) -> str:
    """Return the text of a phase: "Encoding images and captions · 12 of 40 · captions"."""
    parts = [_PHASE_LABELS.get(phase.name, phase.name.capitalize())]
    if phase.total > 1 and phase.name != "training":
        parts.append(f"{phase.done:,} of {phase.total:,}")
    if phase.detail and phase.detail != "base model":  # which the label says
        parts.append(phase.detail)
    return " · ".join(parts)
