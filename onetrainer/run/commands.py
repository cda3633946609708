"""What a worker can be told while it runs; obeyed between two steps."""

from dataclasses import dataclass
from typing import Literal

CommandName = Literal["stop", "pause", "save", "sample"]


@dataclass(frozen=True)
class Command:
    """One request.

    stop: checkpoint, write the file as trained so far, end. pause: checkpoint and end.
    save: write a checkpoint and the file as trained so far, go on. sample: draw the samples now.
    """

    name: CommandName
