"""The microbatches of each step, read and drawn ahead of the step by threads."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch

from modules.interfaces import Microbatch
from onetrainer.dataset.prefetch import prefetch
from onetrainer.schedules.amounts import Plan

Drawn = TypeVar("Drawn")
AT_ONCE = 8
"""Cached microbatches that are read one after the other where no thread reads ahead: a step leaves
nothing of the reading in the processor's caches, and to begin anew takes three times as long."""

Reading = Callable[[], Microbatch | Callable[[], Microbatch]]
"""Reads a microbatch in any thread; returns it, or a function that completes it in the thread that
asks for it, such as on a device."""


class StepBatches(Plan, Protocol):
    """The microbatches of each step, a function of the step alone."""

    def at(self, step: int) -> Iterable[Microbatch]: ...
    def readings_at(self, step: int) -> Sequence[Reading]:
        """Return how to read each microbatch of a step; called in the thread that asks for it."""
        ...

    def names_at(self, step: int) -> Mapping[str, Sequence[str]]:
        """Return what each image of a step is made from: paths as "images", or "prompts"."""
        ...


@dataclass(frozen=True)
class _Task:
    """The reading of a step's microbatch."""

    step: int
    reading: Reading


@dataclass(frozen=True)
class _Read(Generic[Drawn]):
    """What a thread has read; complete: returns it drawn."""

    task: _Task
    complete: Callable[[], Drawn]


def reading_threads(wanted: int, device: torch.device, *, decodes_images: bool) -> int:
    """Return how many threads read ahead on a device: none on the CPU, unless they decode images.

    Reading from the cache takes less than a thread there takes away from the step: each of its
    operations has the two hand Python over to each other.
    """
    return 0 if device.type == "cpu" and not decodes_images else wanted


class Loader(Generic[Drawn]):
    """Drawn microbatches of each step, the same with any number of threads.

    The calling thread decides what is read; other threads read, and draw random numbers.
    """

    def __init__(
        self,
        data: StepBatches,
        draw: Callable[[Microbatch, int], Drawn],
        *,
        threads: int,
        steps: int,
        at_once: int = 1,
        rank: int = 0,
        size: int = 1,
        fills_up: bool = False,
    ) -> None:
        """Set up the loader.

        Args:
            data: What is read.
            draw: Draws for a microbatch of a step.
            threads: 0 reads within the steps.
            at_once: Microbatches that are then read one after the other.
            steps: Of the run.
            rank: Number of this process, which reads every `size`-th microbatch of a step.
            size: How many processes share the run.
            fills_up: Whether a process without a microbatch in a round gets the step's last one,
                which does not count, since the others cannot compute theirs without it.
        """
        self._data = data
        self._draw = draw
        self._threads = threads
        self._at_once = at_once
        self._steps = steps
        self._rank, self._size = rank, size
        self._fills_up = fills_up
        self._next = -1
        self._stream: Generator[_Read[Drawn], None, None] | None = None

    def microbatches_at(self, step: int) -> int:
        """Return how many microbatches a step has, for all processes together."""
        return len(self._data.readings_at(step))

    def at(self, step: int) -> Iterator[Drawn]:
        """Iterate over this process's microbatches of a step; fast if it follows the last one.

        Raises UserError if an image or the cache has changed.
        """
        if step != self._next or self._stream is None:
            self.close()
            self._stream = prefetch(
                self._read,
                self._from(step),
                threads=self._threads,
                most=self._threads or self._at_once,
            )
        # Restart from here unless this one is iterated to its end.
        self._next = -1
        for _ in self._own_at(step):
            read = next(self._stream)
            assert read.task.step == step
            yield read.complete()
        self._next = step + 1

    def close(self) -> None:
        """End reading ahead."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _from(self, step: int) -> Iterator[_Task]:
        """Iterate over the readings from a step on."""
        while step < self._steps:
            for reading in self._own_at(step):
                yield _Task(step, reading)
            step += 1

    def _own_at(self, step: int) -> Sequence[Reading]:
        """Return the readings of this process."""
        every = self._data.readings_at(step)
        own = every[self._rank :: self._size]
        rounds = -(-len(every) // self._size)
        return [*own, *every[-1:]][:rounds] if self._fills_up else own

    def _read(self, task: _Task) -> _Read[Drawn]:
        made = task.reading()
        if callable(made):
            return _Read(task, lambda: self._draw(made(), task.step))
        drawn = self._draw(made, task.step)
        return _Read(task, lambda: drawn)
