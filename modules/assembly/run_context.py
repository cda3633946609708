"""What all stages of a training run share."""

from dataclasses import dataclass

import torch

from modules.training.checkpoints import CheckpointRecord
from modules.training.inbox import Inbox
from onetrainer.config.train import TrainConfig
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Event, Warned
from onetrainer.run.run_folder import RunFolder


@dataclass(frozen=True)
class Run:
    """What every stage of a run needs.

    versions: of what is installed, and of a model of the hub as soon as that is known.
    last: the checkpoint it continues from, if any. kept: what the run has told up to it.
    """

    folder: RunFolder
    config: TrainConfig
    digest: str
    versions: dict[str, str]
    events: EventWriter
    inbox: Inbox
    device: torch.device
    last: CheckpointRecord | None
    kept: list[Event]

    @property
    def first_step(self) -> int:
        return self.last.step if self.last else 0

    @property
    def told(self) -> set[str]:
        return {event.text for event in self.kept if isinstance(event, Warned)}

    def warn(self, text: str) -> None:
        """Tells something once, however often the run is resumed."""
        if text not in self.told:
            self.events.write(Warned(text))
