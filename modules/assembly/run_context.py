"""Context that all stages of a training run share."""

from dataclasses import dataclass, field
from typing import Any

import torch

from modules.training.checkpoint_record import CheckpointRecord
from modules.training.failures import Failures
from modules.training.inbox import Inbox
from modules.world.world import World, alone
from onetrainer.config.train import TrainConfig
from onetrainer.run.commands import Leaving
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Event, Stopped, Warned
from onetrainer.run.run_folder import RunFolder


@dataclass(frozen=True)
class Run:
    """Context of a training run.

    Attributes:
        document: The config as the run's file says, before anything automatic is resolved.
        versions: Of installed packages, and of a Hub model once it is known.
        last: Checkpoint that the run continues from; None for a new run.
        past_events: Events up to that checkpoint.
        failures: Tolerates what fails beside the steps.
        undecided: The config with lengths in minutes, if this start is to measure the speed; None
            if all lengths are known.
        world: The processes that share the run; only rank 0 has an inbox, and events that are read.
    """

    folder: RunFolder
    config: TrainConfig
    document: dict[str, Any]
    digest: str
    versions: dict[str, str]
    events: EventWriter
    inbox: Inbox
    device: torch.device
    last: CheckpointRecord | None
    past_events: list[Event]
    failures: Failures
    undecided: TrainConfig | None = None
    world: World = field(default_factory=alone)

    @property
    def first_step(self) -> int:
        return self.last.step if self.last else 0

    @property
    def past_warnings(self) -> set[str]:
        return {event.text for event in self.past_events if isinstance(event, Warned)}

    def warn(self, text: str) -> None:
        """Write a warning, once for all starts of the run."""
        if text not in self.past_warnings:
            self.events.write(Warned(text))

    def report_stop(self, reason: Leaving) -> None:
        """Report that the run ends before its first step. No event can follow."""
        self.events.write_last(Stopped(self.first_step, reason))
