"""Slow work in threads that never touch Tk."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

_MAX_CALLS = 16
Result = TypeVar("Result")


class Jobs:
    """Runs functions in threads and delivers their results on demand."""

    def __init__(self) -> None:
        self._results: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def run(
        self,
        work: Callable[[], Result],
        done: Callable[[Result], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Run the work in its own thread.

        `deliver` calls `done` or `failed` later. Without `failed` it raises the work's exception.
        """

        def body() -> None:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - raised or handled in `deliver`
                caught = error
                self._results.put(lambda: _fail(caught, failed))
                return
            self._results.put(lambda: done(result))

        threading.Thread(target=body, daemon=True).start()

    def post(self, call: Callable[[], None]) -> None:
        """Let `deliver` call a function; safe to use from any thread."""
        self._results.put(call)

    def deliver(self) -> int:
        """Call the waiting functions, up to a limit; return how many were called."""
        for made in range(_MAX_CALLS):
            try:
                call = self._results.get_nowait()
            except Empty:
                return made
            call()
        return _MAX_CALLS


def _fail(error: Exception, failed: Callable[[Exception], None] | None) -> None:
    if failed is None:
        raise error
    failed(error)
