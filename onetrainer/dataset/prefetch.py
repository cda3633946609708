"""Work in other threads, with results in order of submission."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
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

    work: Called in other threads. items: Iterated in the calling thread. threads: 0 computes each
    result when it is needed. most: Results ahead of time.
    """
    if not threads:
        yield from map(work, items)
        return
    with closing(WorkQueue[Result](threads=threads, most=most)) as queue:
        try:
            for item in items:
                queue.submit(partial(work, item))
                yield from queue.excess()
            yield from queue.remaining()
        finally:
            queue.cancel()
