"""Pausing a run while its disk still has room for a checkpoint."""

import math
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic

from modules.training.checkpoint_writer import CheckpointWriter
from modules.training.inbox import Inbox
from onetrainer.errors import EndsRun, UserError
from onetrainer.messages.formatting import format_size
from onetrainer.run.checkpoint_files import size_of
from onetrainer.run.run_folder import RunFolder

_RESERVE = 64 << 20
"""Bytes for the events, samples and logs of the steps until the run has paused."""
_SECONDS_BETWEEN_CHECKS = 1.0


class FolderGone(EndsRun):
    """The run folder was moved or deleted: saving would begin another one in its place."""

    failure = "file missing"


@dataclass
class DiskSpaceTask:
    """Pauses the run if the disk has room for one more checkpoint only.

    Attributes:
        steps: Number of steps of the run; after the last one it is too late to pause.
        finding: What was found; "" while there is enough room.
    """

    folder: RunFolder
    writer: CheckpointWriter
    inbox: Inbox
    steps: int
    finding: str = field(default="", init=False)
    _checked: float = field(default=-math.inf, init=False)

    def is_due(self, step: int) -> bool:
        """Return whether too little room is left; looked up once a second at most.

        Raises FolderGone if the run folder is not there any more.
        """
        now = monotonic()
        if step >= self.steps or now - self._checked < _SECONDS_BETWEEN_CHECKS:
            return False
        self._checked = now
        if not self.folder.config.exists():
            raise FolderGone(
                f"{self.folder.path}: the run folder was moved or deleted while the run trained",
                "Expected it to stay until the run has ended",
                "Resume the run from where the folder is now, or start a new one.",
            )
        if self.writer.is_writing:  # and will have deleted the oldest one when it is done
            return False
        with suppress(OSError):  # a drive that does not say it; saving will tell
            self.finding = shortage(self.folder, self.writer.checkpoints.byte_count())
        return bool(self.finding)

    def run(self, _step: int) -> None:
        """Ask the run to pause, as a person would: it saves a checkpoint and ends."""
        self.inbox.put("pause")


def shortage(folder: RunFolder, checkpoint_bytes: int) -> str:
    """Return a sentence if a run's disk has too little room to go on; "" if it has enough."""
    needed, free = checkpoint_bytes + _RESERVE, shutil.disk_usage(folder.path).free
    if free >= needed:
        return ""
    return (
        f"the disk of {folder.path} has {format_size(free)} free, and the next checkpoint takes"
        f" {format_size(checkpoint_bytes)}; going on needs {format_size(needed)} free there"
    )


def require_room(folder: RunFolder, step: int) -> None:
    """Raise UserError unless the disk has room for another checkpoint like that of a step."""
    if finding := shortage(folder, size_of(folder.checkpoint(step))):
        raise UserError(
            finding,
            "Expected enough room to save the run while it trains",
            "Free some space on this disk, or move the run folder to a larger one.",
            failure="disk full",
        )
