"""Recordings of work: what is computed again and again in the same memory, without Python."""

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from modules.memory.tensors import map_tensors

Result = TypeVar("Result")

WARM_RUNS = 3
"""Runs before a recording: libraries choose kernels and the optimizer creates its state."""
MOST = 16
"""Recordings at once. Each holds a few MB of the GPU's driver; what else comes runs eagerly."""


class Recorder(Protocol):
    """Records work on a device."""

    def warm(self, work: Callable[[], Result]) -> Result:
        """Run work as it will be recorded, without recording it."""
        ...

    def record(self, work: Callable[[], Result]) -> tuple[Callable[[], None], Result]:
        """Record work and run it once; return what replays it, and its result.

        A replay computes from what is then in the memory that the work has read, and leaves its
        result in the tensors of this one.
        """
        ...


class GraphRecorder:
    """CUDA graphs in one pool of memory.

    Source: "CUDA Graphs" of torch's notes on CUDA semantics.
    """

    def __init__(self, device: torch.device) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call] # torch's

    def warm(self, work: Callable[[], Result]) -> Result:
        caller = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(caller)
        with torch.cuda.stream(self._stream):
            result = work()
        caller.wait_stream(self._stream)
        return result

    def record(self, work: Callable[[], Result]) -> tuple[Callable[[], None], Result]:
        graph = torch.cuda.CUDAGraph()
        # Of this thread: those of the loader pin memory meanwhile, which a recording of the whole
        # process forbids.
        mode = "thread_local"
        with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode=mode):
            result = work()
        graph.replay()
        return graph.replay, result


def recorder_for(device: torch.device) -> Recorder | None:
    """Return what records work on a device; None if nothing can."""
    return GraphRecorder(device) if device.type == "cuda" else None


class Recordings:
    """Work by its key: run until it is warm, then recorded, then replayed."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._runs: dict[Hashable, int] = {}
        self._recorded: dict[Hashable, tuple[Callable[[], None], Any]] = {}

    def has_room(self, key: Hashable) -> bool:
        """Return whether the work of a key is recorded, or can be."""
        return key in self._recorded or len(self._recorded) < MOST

    def run(self, key: Hashable, work: Callable[[], Result]) -> Result:
        """Run work whose operations and memory depend on the key alone.

        Returns a dataclass or a tensor; copies of what the next replay overwrites.
        """
        if key not in self._recorded:
            self._runs[key] = self._runs.get(key, 0) + 1
            if self._runs[key] <= WARM_RUNS:
                return self._recorder.warm(work)
            self._recorded[key] = self._recorder.record(work)
        else:
            self._recorded[key][0]()
        result: Result = map_tensors(self._recorded[key][1], Tensor.clone)
        return result
