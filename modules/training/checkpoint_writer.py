"""Writing of checkpoints while training goes on."""

from concurrent.futures import Future, ThreadPoolExecutor

from modules.training.checkpoint_record import CheckpointRecord
from modules.training.checkpoints import CheckpointContent, Checkpoints
from onetrainer.images.decoding import free_memory
from onetrainer.run.event_log import EventWriter
from onetrainer.run.events import Checkpoint

BACKGROUND_BYTES = 64 << 20
"""Smaller checkpoints are written at once, which takes less than a second."""
_MEMORY_FACTOR = 2
"""How many times a copy's bytes must be free in RAM: other programs and the run take some, too."""


class CheckpointWriter:
    """Saves checkpoints: a large one is copied to RAM, and a thread writes it during later steps.

    One is written at a time. What is written is what training was when it was saved, and is
    complete or not there at all, however the process ends. Where the RAM has no room for the copy,
    training waits for the disk.
    """

    def __init__(self, checkpoints: Checkpoints, events: EventWriter) -> None:
        """Write nothing yet. events: Reports each checkpoint once it is complete."""
        self.checkpoints = checkpoints
        self.newest_step = -1
        """The step that was saved last, complete or still being written; -1 for none."""
        self._events = events
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None

    def save(self, record: CheckpointRecord, *, best_step: int | None) -> None:
        """Save the state of training as it is now.

        best_step: As for `Checkpoints.write`.

        Raises:
            UserError: If this checkpoint, or the one before, cannot be written.
        """
        self.wait()
        content = self.checkpoints.content(record)
        size = content.byte_count()
        self.newest_step = record.step
        if size >= BACKGROUND_BYTES and free_memory() > _MEMORY_FACTOR * size:
            self._writing = self._thread.submit(self._write, content.copied(), best_step)
        else:
            self._write(content, best_step)

    @property
    def is_writing(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._writing is not None and not self._writing.done()

    @property
    def has_failed(self) -> bool:
        """Whether a checkpoint could not be written, which `wait` raises."""
        writing = self._writing
        return writing is not None and writing.done() and writing.exception() is not None

    def wait(self) -> None:
        """Wait until the checkpoint that is being written is complete; raise why it is not."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        """Wait for what is being written, complete or not."""
        self._thread.shutdown()

    def _write(self, content: CheckpointContent, best_step: int | None) -> None:
        path = self.checkpoints.write(content, best_step=best_step)
        relative = path.relative_to(self.checkpoints.folder.path).as_posix()
        self._events.write(Checkpoint(content.record.step, relative))
