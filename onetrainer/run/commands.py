"""Commands to a running worker, which obeys them between two steps."""

from dataclasses import dataclass
from typing import Literal

CommandName = Literal["stop", "pause", "save", "sample"]


@dataclass(frozen=True)
class Command:
    """One command.

    stop: save a checkpoint and the model file, then end. pause: save a checkpoint, then end.
    save: save a checkpoint and the model file, then continue. sample: generate the samples now.
    """

    name: CommandName
