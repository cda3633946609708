"""The batches of a run in order, prefetched by threads."""

from collections.abc import Callable, Generator, Iterator
from functools import partial

from modules.data.batches import BatchSource, read_batch
from modules.data.prefetch import prefetch
from modules.interfaces import Batch
from onetrainer.dataset.batch_plan import BatchPlan, StepPlan

_Reading = tuple[int, Callable[[], Batch]]
_Microbatch = tuple[StepPlan, int]


class Loader:
    """Loads each step's microbatches, the same with any number of threads.

    The calling thread plans them; other threads only read them.
    """

    def __init__(
        self,
        batch_source: BatchSource,
        plan: BatchPlan,
        *,
        threads: int,
        steps: int,
        with_pixels: bool = False,
    ) -> None:
        """Set up the loader. threads: 0 reads within the steps. steps: of the run."""
        self._plan = plan
        self._threads = threads
        self._steps = steps
        self._read = partial(_read, batch_source, with_pixels=with_pixels)
        self._next = -1
        self._stream: Generator[_Reading, None, None] | None = None

    def at(self, step: int) -> Iterator[Batch]:
        """Iterate over the microbatches of a step; fast if it follows the last one.

        Raises UserError if an image or the cache has changed.
        """
        if step != self._next or self._stream is None:
            self.close()
            self._stream = prefetch(
                self._read, self._microbatches(step), threads=self._threads, most=self._threads
            )
        # Restart from here unless this one is iterated to its end.
        self._next = -1
        for _ in self._plan.at(step).microbatches:
            of_step, finish = next(self._stream)
            assert of_step == step
            yield finish()
        self._next = step + 1

    def close(self) -> None:
        """End prefetching."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _microbatches(self, step: int) -> Iterator[_Microbatch]:
        """Iterate over the microbatches from a step on."""
        while step < self._steps:
            plan = self._plan.at(step)
            yield from ((plan, number) for number in range(len(plan.microbatches)))
            step += 1


def _read(batch_source: BatchSource, microbatch: _Microbatch, *, with_pixels: bool) -> _Reading:
    plan, number = microbatch
    return plan.step, read_batch(batch_source, plan, number, with_pixels=with_pixels)
