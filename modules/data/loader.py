"""The batches of a run in order, read ahead of it by threads."""

from collections.abc import Callable, Generator, Iterator
from functools import partial

from modules.data.batches import Shelf, read_batch
from modules.data.prefetch import ahead
from modules.interfaces import Batch
from onetrainer.dataset.batch_plan import BatchPlan, StepPlan

_Reading = tuple[int, Callable[[], Batch]]
_Microbatch = tuple[StepPlan, int]


class Loader:
    """Gives each step's microbatches, the same whatever the number of threads.

    Which they are is planned by whoever asks; threads only read what was planned.
    """

    def __init__(
        self,
        shelf: Shelf,
        plan: BatchPlan,
        *,
        threads: int,
        steps: int,
        with_pixels: bool = False,
    ) -> None:
        """threads: 0 reads within the steps. steps: nothing is read from that one on."""
        self._plan = plan
        self._threads = threads
        self._steps = steps
        self._read = partial(_read, shelf, with_pixels=with_pixels)
        self._next = -1
        self._stream: Generator[_Reading, None, None] | None = None

    def at(self, step: int) -> Iterator[Batch]:
        """The microbatches of a step; quickly, if it is the one after the last one asked for.

        UserError if a picture or the cache has changed.
        """
        if step != self._next or self._stream is None:
            self.close()
            self._stream = self._readings(step)
        # Anew from here if this one is not gone through to its end.
        self._next = -1
        for _ in self._plan.at(step).microbatches:
            of_step, finish = next(self._stream)
            assert of_step == step
            yield finish()
        self._next = step + 1

    def close(self) -> None:
        """Ends reading ahead."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _readings(self, step: int) -> Generator[_Reading, None, None]:
        return ahead(
            self._read, self._microbatches(step), threads=self._threads, most=self._threads
        )

    def _microbatches(self, step: int) -> Iterator[_Microbatch]:
        """What is to be read from a step on."""
        while step < self._steps:
            plan = self._plan.at(step)
            yield from ((plan, number) for number in range(len(plan.microbatches)))
            step += 1


def _read(shelf: Shelf, microbatch: _Microbatch, *, with_pixels: bool) -> _Reading:
    plan, number = microbatch
    return plan.step, read_batch(shelf, plan, number, with_pixels=with_pixels)
