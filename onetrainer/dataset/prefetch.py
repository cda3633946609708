"""Work in other threads, with results in order of submission."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkQueue(Generic[Result]):
    """A queue of work for threads, and of results that are not taken yet."""

    def __init__(self, *, threads: int, most: int) -> None:
        """Start the threads. most: how much may be queued before results must be taken."""
        self._pool = ThreadPoolExecutor(threads)
        self._most = most
        self._waiting: deque[Future[Result]] = deque()

    def submit(self, work: Callable[[], Result]) -> None:
        """Add work to the end of the queue."""
        self._waiting.append(self._pool.submit(work))

    def excess(self) -> Iterator[Result]:
        """Take the oldest results, as many as must be taken before more is submitted.

        Waits for them; raises what the work has raised.
        """
        while len(self._waiting) > self._most:
            yield self._waiting.popleft().result()

    def remaining(self) -> Iterator[Result]:
        """Take all other results."""
        while self._waiting:
            yield self._waiting.popleft().result()

    def cancel(self) -> None:
        """Drop what has not started yet."""
        for future in self._waiting:
            future.cancel()
        self._waiting.clear()

    def close(self) -> None:
        """Wait for all submitted work; no more may be submitted."""
        self._pool.shutdown()


def prefetch(
    work: Callable[[Item], Result], items: Iterable[Item], *, threads: int, most: int
) -> Generator[Result, None, None]:
    """Map work over items like `map`, computing up to `most` results ahead of time.

    Close it unless it is iterated to its end.

    work: Called in other threads. items: Iterated in the calling thread. threads: 0 computes `most`
    results in the calling thread when the first of them is needed. most: Results ahead of time.
    """
    if not threads:
        yield from _in_groups(work, items, max(1, most))
        return
    with closing(WorkQueue[Result](threads=threads, most=most)) as queue:
        try:
            for item in items:
                queue.submit(partial(work, item))
                yield from queue.excess()
            yield from queue.remaining()
        finally:
            queue.cancel()


def _in_groups(
    work: Callable[[Item], Result], items: Iterable[Item], size: int
) -> Iterator[Result]:
    """Map work over items, some at once; what one raises is raised when its turn comes."""
    remaining = iter(items)
    while group := list(islice(remaining, size)):
        done: list[Result] = []
        error: Exception | None = None
        for item in group:
            try:
                done.append(work(item))
            except Exception as found:  # noqa: BLE001 - raised after those before it
                error = found
                break
        yield from done
        if error is not None:
            raise error
