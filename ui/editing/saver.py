"""Saving in the background, one batch after the other, and taking back what was saved."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from onetrainer.edits.history import Batch, EditHistory
from onetrainer.edits.saving import Change, Saved, save, take_back
from onetrainer.errors import UserError
from ui.background.threads import Jobs

Version = tuple[Batch, bytes | None]
"""A batch, and what a file held before it; None is no file."""

Done = Callable[[Saved], None]


@dataclass(frozen=True)
class Steps:
    """What can be undone and redone; None if nothing can."""

    undo: Batch | None = None
    redo: Batch | None = None


class Saver:
    """Saves batches in the order in which they are given.

    What was given is saved also if the window is closed meanwhile: its thread is waited for.

    Args:
        failed: Called if the history cannot be written, so that nothing was saved.
        changed: Called when `steps` have changed.
    """

    def __init__(
        self,
        jobs: Jobs,
        failed: Callable[[UserError], None],
        changed: Callable[[], None],
        history: EditHistory | None = None,
    ) -> None:
        self._jobs = jobs
        self._failed = failed
        self._changed = changed
        self._history = history or EditHistory()
        self._thread = ThreadPoolExecutor(1, "saving")
        self.steps = Steps()

    def save(self, changes: Sequence[Change], about: str, done: Done) -> None:
        """Save changes in the background."""
        self._start(lambda: save(changes, about, self._history), done)

    def save_now(self, changes: Sequence[Change], about: str) -> Saved:
        """Save changes and wait for it. Raises UserError."""
        return self._thread.submit(save, changes, about, self._history).result()

    def undo(self, done: Done) -> None:
        """Take back the last saving, of this window or an earlier one."""
        self._take_back(self.steps.undo, done)

    def redo(self, done: Done) -> None:
        """Take back the last undoing."""
        self._take_back(self.steps.redo, done)

    def versions(self, path: Path, take: Callable[[list[Version]], None]) -> None:
        """Find what a file held before each batch that changed it."""
        self._jobs.run(lambda: self._history.versions(path), take, self._fail)

    def refresh(self) -> None:
        """Read what can be undone, which other windows change too."""
        self._thread.submit(self._read_steps)

    def _take_back(self, batch: Batch | None, done: Done) -> None:
        if batch is not None:
            self._start(lambda: take_back(batch, self._history), done)

    def _start(self, work: Callable[[], Saved], done: Done) -> None:
        def finish(future: Future[Saved]) -> None:
            error = future.exception()
            if error is not None:
                self._jobs.post(lambda: self._fail(error))
                return
            saved = future.result()
            self._jobs.post(lambda: done(saved))
            self._read_steps()

        self._thread.submit(work).add_done_callback(finish)

    def _read_steps(self) -> None:
        try:
            steps = Steps(self._history.last(), self._history.last_undone())
        except UserError:
            steps = Steps()  # said when something is saved
        self._jobs.post(lambda: self._take_steps(steps))

    def _take_steps(self, steps: Steps) -> None:
        self.steps = steps
        self._changed()

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, UserError):
            raise error
        self._failed(error)
