"""Work that may take a while, in threads that never touch Tk."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

_MOST_A_TURN = 16
Result = TypeVar("Result")


class Jobs:
    """Runs functions in threads and hands their results over when asked."""

    def __init__(self) -> None:
        self._results: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def run(
        self,
        work: Callable[[], Result],
        done: Callable[[Result], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Does the work in a thread of its own.

        `done` or `failed` is called later by `deliver`, in its thread. Without `failed` an
        exception of the work is raised there.
        """

        def body() -> None:
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - carried over, not swallowed
                caught = error
                self._results.put(lambda: _fail(caught, failed))
                return
            self._results.put(lambda: done(result))

        threading.Thread(target=body, daemon=True).start()

    def post(self, call: Callable[[], None]) -> None:
        """Has a function called by `deliver`; may be used from any thread."""
        self._results.put(call)

    def deliver(self) -> int:
        """Calls what has become ready, at most some of it; how many calls were made."""
        for made in range(_MOST_A_TURN):
            try:
                call = self._results.get_nowait()
            except Empty:
                return made
            call()
        return _MOST_A_TURN


def _fail(error: Exception, failed: Callable[[Exception], None] | None) -> None:
    if failed is None:
        raise error
    failed(error)
