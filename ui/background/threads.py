"""Slow work in threads that never touch Tk."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_MAX_CALLS = 16
Key = TypeVar("Key")
Result = TypeVar("Result")


class Jobs:
    """Runs functions in threads and delivers their results on demand.

    `on_close` lists functions that end work which must not outlive the window.

    is_held: Whether all of it waits for `release`, so that a window is on the screen sooner.
    """

    def __init__(self, *, is_held: bool = False) -> None:
        self._is_held = is_held
        self._held: list[Callable[[], None]] = []
        self._results: SimpleQueue[tuple[int, Callable[[], None]]] = SimpleQueue()
        self._generation = 0
        self._own = threading.local()  # the generation of the work that a thread does
        self._line: ThreadPoolExecutor | None = None
        self.on_close: list[Callable[[], None]] = []

    def run(
        self,
        work: Callable[[], Result],
        done: Callable[[Result], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Run the work in its own thread.

        `deliver` calls `done` or `failed` later. Without `failed` it raises the work's exception.
        """
        body = self._body(work, done, failed)
        if self._is_held:
            self._held.append(body)
        else:
            threading.Thread(target=body, daemon=True).start()

    def release(self) -> None:
        """Begin what was held, and hold nothing from now on."""
        self._is_held = False
        for body in self._held:
            threading.Thread(target=body, daemon=True).start()
        self._held.clear()

    def run_in_order(
        self,
        work: Callable[[], Result],
        done: Callable[[Result], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Run the work after all that was given here before, even if the window is closed then.

        For what a person changes: it is small, but a slow disk or another program may delay it.
        """
        # Imported late to keep the start of the window fast.
        from concurrent.futures import ThreadPoolExecutor

        self._line = self._line or ThreadPoolExecutor(1, "changes")
        self._line.submit(self._body(work, done, failed))

    def _body(
        self,
        work: Callable[[], Result],
        done: Callable[[Result], None],
        failed: Callable[[Exception], None] | None,
    ) -> Callable[[], None]:
        """Return what a thread does: the work, and handing over what comes of it."""
        generation = self._generation

        def body() -> None:
            self._own.generation = generation
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - raised or handled in `deliver`
                caught = error
                self._results.put((generation, lambda: (failed or _raise)(caught)))
                return
            self._results.put((generation, lambda: done(result)))

        return body

    def post(self, call: Callable[[], None]) -> None:
        """Let `deliver` call a function; safe to use from any thread.

        What work posts that was begun before `forget` is dropped: its widgets are gone.
        """
        generation = getattr(self._own, "generation", self._generation)
        self._results.put((generation, call))

    def forget(self) -> None:
        """End what must not outlive the widgets, and drop all results that are still to come."""
        for end in self.on_close:
            end()
        self.on_close.clear()
        self._held.clear()
        self._generation += 1

    def deliver(self) -> int:
        """Call the waiting functions, up to a limit; return how many were called."""
        most = 0 if self._is_held else _MAX_CALLS
        for made in range(most):
            try:
                generation, call = self._results.get_nowait()
            except Empty:
                return made
            if generation == self._generation:
                call()
        return most


def _raise(error: Exception) -> None:
    raise error


class OneAtATime(Generic[Result]):
    """Slow work that is asked for again and again, of which one is done at a time.

    What is asked for meanwhile begins when it has ended, the last of it alone. Results of what is
    no longer wanted are dropped.

    Args:
        jobs: Runs the work.
        done, failed: Called with what became of the work that was asked for last. Without `failed`
            its exception is raised.
    """

    def __init__(
        self,
        jobs: Jobs,
        done: Callable[[Result], None],
        failed: Callable[[Exception], None] = _raise,
    ) -> None:
        self._jobs, self._done, self._failed = jobs, done, failed
        self._wanted: Callable[[], Result] | None = None
        self.is_busy = False

    def ask(self, work: Callable[[], Result]) -> None:
        """Do the work in a thread, now or after what is being done."""
        self._wanted = work
        if not self.is_busy:
            self._begin(work)

    def drop(self) -> None:
        """Want nothing that was asked for."""
        self._wanted = None

    def _begin(self, work: Callable[[], Result]) -> None:
        self.is_busy = True
        self._jobs.run(
            work,
            lambda result: self._end(work, lambda: self._done(result)),
            lambda error: self._end(work, lambda: self._failed(error)),
        )

    def _end(self, work: Callable[[], Result], deliver: Callable[[], None]) -> None:
        self.is_busy = False
        if self._wanted is work:
            deliver()
        elif self._wanted is not None:
            self._begin(self._wanted)


class Latest(Generic[Key, Result]):
    """Result of slow work for the newest key; results for earlier keys are dropped.

    Args:
        jobs: Runs the work.
        work: Computes the result for a key in a thread.
        changed: Called when the result is known.
    """

    def __init__(
        self, jobs: Jobs, work: Callable[[Key], Result], changed: Callable[[], None]
    ) -> None:
        self._jobs = jobs
        self._work = work
        self._changed = changed
        self._key: Key | None = None
        self._result: Result | None = None

    def get(self, key: Key | None) -> Result | None:
        """Return the result for a key; None while it is unknown, and for None."""
        if key != self._key:
            self._key, self._result = key, None
            if key is not None:
                wanted = key
                self._jobs.run(lambda: self._work(wanted), lambda found: self._take(wanted, found))
        return self._result

    def _take(self, key: Key, result: Result) -> None:
        if key == self._key:
            self._result = result
            self._changed()
