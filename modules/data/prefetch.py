"""Work done by other threads, its results in the order in which it was given."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Generic, TypeVar

Given = TypeVar("Given")
Result = TypeVar("Result")


class Line(Generic[Result]):
    """Work in line for some threads: what waits, and results that nobody has taken yet."""

    def __init__(self, *, threads: int, most: int) -> None:
        """most: how much may be in line before results have to be taken."""
        self._pool = ThreadPoolExecutor(threads)
        self._most = most
        self._waiting: deque[Future[Result]] = deque()

    def give(self, work: Callable[[], Result]) -> None:
        """Puts work at the end of the line."""
        self._waiting.append(self._pool.submit(work))

    def due(self) -> Iterator[Result]:
        """The results, the first first, that are to be taken before more is given.

        Waits for them; raises what the work has raised.
        """
        while len(self._waiting) > self._most:
            yield self._waiting.popleft().result()

    def rest(self) -> Iterator[Result]:
        """All other results."""
        while self._waiting:
            yield self._waiting.popleft().result()

    def drop(self) -> None:
        """Forgets what has not begun yet."""
        for one in self._waiting:
            one.cancel()
        self._waiting.clear()

    def close(self) -> None:
        """Waits for all that was given; nothing may be given any more."""
        self._pool.shutdown()


def ahead(
    work: Callable[[Given], Result], given: Iterable[Given], *, threads: int, most: int
) -> Generator[Result, None, None]:
    """As `map`, with up to so many results made before they are asked for.

    threads: 0 makes each when it is asked for. `given` is gone through by whoever asks. To be
    closed by who does not ask to the end.
    """
    if not threads:
        yield from map(work, given)
        return
    with closing(Line[Result](threads=threads, most=most)) as line:
        try:
            for one in given:
                line.give(partial(work, one))
                yield from line.due()
            yield from line.rest()
        finally:
            line.drop()
