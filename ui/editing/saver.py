"""Saving in the background, one batch after the other, and taking back what was saved."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from types import MappingProxyType

from onetrainer.edits.history import Batch, EditHistory
from onetrainer.edits.saving import Change, Saved, read_content, save, take_back
from onetrainer.errors import UserError
from ui.background.threads import Jobs

Version = tuple[Batch, bytes | None]
"""A batch, and what a file held before it; None is no file."""

Done = Callable[[Saved], None]

_Pending = Callable[[], Change]
"""Returns a change that is to be saved; waits for it if it is being made."""


@dataclass(frozen=True)
class Steps:
    """What can be undone and redone; None if nothing can."""

    undo: Batch | None = None
    redo: Batch | None = None


class Saver:
    """Saves batches in the order in which they are given.

    What was given is saved also if the window is closed meanwhile, which waits for it. Until it is
    written, `read` tells what a file will hold.

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
        self._pending: dict[Path, _Pending] = {}
        self._waiting = 0  # works whose end is not known yet
        self._news: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.steps = Steps()
        jobs.on_close.append(self.settle)

    def save(self, changes: Sequence[Change], about: str, done: Done) -> None:
        """Save changes in the background."""
        pending: dict[Path, _Pending] = {change.path: partial(_known, change) for change in changes}
        self._start(lambda: save(changes, about, self._history), done, pending)

    def save_made(self, path: Path, make: Callable[[], Change], about: str, done: Done) -> None:
        """Save a change of a file that is slow to make, which is done in the background too."""
        made = self._thread.submit(make)
        self._start(lambda: save([made.result()], about, self._history), done, {path: made.result})

    def read(self, path: Path) -> bytes | None:
        """Return what a file holds once all is saved; None if there will be none. Raises OSError.

        Any thread may call it.
        """
        pending = self._pending.get(path)
        return read_content(path) if pending is None else pending().after

    def settle(self) -> None:
        """Wait until all is saved, and call back about it."""
        while self._waiting:
            self._news.get()()

    def undo(self, done: Done) -> None:
        """Take back the last saving, of this window or an earlier one."""
        self._take_back(self.steps.undo, self._history.last, done)

    def redo(self, done: Done) -> None:
        """Take back the last undoing."""
        self._take_back(self.steps.redo, self._history.last_undone, done)

    def versions(self, path: Path, take: Callable[[list[Version]], None]) -> None:
        """Find what a file held before each batch that changed it."""
        self._jobs.run(lambda: self._history.versions(path), take, self._fail)

    def refresh(self) -> None:
        """Read what can be undone, which other windows change too."""

        def read() -> None:
            steps = self._read_steps()
            self._tell(lambda: self._take_steps(steps))

        self._thread.submit(read)

    def _take_back(self, shown: Batch | None, find: Callable[[], Batch | None], done: Done) -> None:
        """Take back the batch that is shown; behind others, the one that is the last by then."""
        is_first = not self._waiting

        def work() -> Saved:
            batch = shown if is_first else find()
            return Saved() if batch is None else take_back(batch, self._history)

        if shown is not None or not is_first:
            self._start(work, done)

    def _start(
        self,
        work: Callable[[], Saved],
        done: Done,
        pending: Mapping[Path, _Pending] = MappingProxyType({}),
    ) -> None:
        self._pending |= pending
        self._waiting += 1

        def run() -> None:
            result: Saved | Exception
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - raised or reported in `end`
                result = error
            steps = self._read_steps()
            self._tell(lambda: end(result, steps))

        def end(result: Saved | Exception, steps: Steps) -> None:
            self._waiting -= 1
            for path, one in pending.items():
                if self._pending.get(path) is one:  # and not a later one
                    del self._pending[path]
            self._take_steps(steps)
            if isinstance(result, Exception):
                self._fail(result)
            else:
                done(result)

        self._thread.submit(run)

    def _tell(self, news: Callable[[], None]) -> None:
        """Let the window's thread hear of something, in order."""
        self._news.put(news)
        self._jobs.post(self._hear)

    def _hear(self) -> None:
        try:
            news = self._news.get_nowait()
        except Empty:  # `settle` was faster
            return
        news()

    def _read_steps(self) -> Steps:
        try:
            return Steps(self._history.last(), self._history.last_undone())
        except UserError:
            return Steps()  # said when something is saved

    def _take_steps(self, steps: Steps) -> None:
        self.steps = steps
        self._changed()

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, UserError):
            raise error
        self._failed(error)


def _known(change: Change) -> Change:
    return change
