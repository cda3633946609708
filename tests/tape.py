"""A recorder on the processor: it stands for the CUDA graphs that need a card.

It notes the operations of the work that it runs, and a replay runs them again on the same memory,
without the program's Python. As a recording on a card does, it refuses to read a value on the host,
and memory that does not stay: every operand from outside must be a weight, a buffer, optimizer
state, a table, fixed inputs or fixed gradients.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from modules.diffusion.schedule import NoiseLevels
from modules.memory.scaling import LossScale
from modules.memory.tensors import tensors_in
from modules.objectives.denoising import Denoising
from modules.stepping.captured import CapturedStep

READS = {"_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "unique"}


class Tape:
    """Implements `modules.stepping.recordings.Recorder`.

    records, replays: How many there were.
    """

    def __init__(self) -> None:
        self.records = self.replays = 0

    def warm(self, work: Callable[[], Any]) -> Any:
        return work()

    def record(self, work: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        operations = _Operations()
        with _no_python_reads(), operations:
            result = work()
        places = [(each, operations.slots[_key(each)]) for each in tensors_in(result)]
        self.records += 1

        def replay() -> None:
            made = operations.run()
            for tensor, slot in places:
                tensor.copy_(made[slot])
            self.replays += 1

        return replay, result


@dataclass(frozen=True)
class _Slot:
    number: int


class _Operations(TorchDispatchMode):
    """The operations of a piece of work, each with the slots of its operands and results."""

    def __init__(self) -> None:
        super().__init__()
        self.slots: dict[object, int] = {}
        self._steady = {_storage(tensor) for tensor in _steady_tensors()}
        self._alive: list[Tensor] = []  # so that no address is given away twice
        self._operations: list[tuple[Callable[..., Any], Any, list[int]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name.partition("::")[2] in READS:
            raise RuntimeError(f"{func}: a recording cannot read a value on the host")
        operands = tree_map(self._operand, (args, kwargs or {}))
        out = func(*args, **(kwargs or {}))
        made = [each for each in tree_flatten(out)[0] if isinstance(each, Tensor)]
        numbers = []
        for tensor in made:
            numbers.append(self.slots.setdefault(_key(tensor), len(self._alive)))
            self._alive.append(tensor)
        self._operations.append((func, operands, numbers))
        return out

    @torch.no_grad()
    def run(self) -> dict[int, Tensor]:
        """Run them again; return the results by slot."""
        env: dict[int, Tensor] = {}

        def filled(value: object) -> object:
            return env[value.number] if isinstance(value, _Slot) else value

        for func, operands, numbers in self._operations:
            args, kwargs = tree_map(filled, operands)
            made = [e for e in tree_flatten(func(*args, **kwargs))[0] if isinstance(e, Tensor)]
            env |= zip(numbers, made, strict=True)
        return env

    def _operand(self, value: object) -> object:
        if not isinstance(value, Tensor):
            return value
        if (slot := self.slots.get(_key(value))) is not None:
            return _Slot(slot)
        if _storage(value) not in self._steady:
            what = f"{tuple(value.shape)}, {value.dtype}"
            raise RuntimeError(f"a recording reads memory that does not stay: {what}")
        return value


def _steady_tensors() -> Iterator[Tensor]:
    """Yield all that lives as long as a run."""
    for each in gc.get_objects():
        match each:
            case nn.Module():
                yield from (*each.parameters(), *each.buffers())
            case torch.optim.Optimizer():
                groups = [*each.state.values(), *each.param_groups]
                yield from (e for group in groups for e in group.values() if isinstance(e, Tensor))
            case Denoising():
                yield from (e for e in vars(each).values() if isinstance(e, Tensor))
            case NoiseLevels():
                yield from tensors_in(each)
            case LossScale():
                yield from each._factors.values()
            case CapturedStep():
                yield each._total
                yield from each._gradients._memory.values()
                yield from (e for given in each._inputs.values() for e in tensors_in(given))


@contextmanager
def _no_python_reads() -> Iterator[None]:
    """Refuse what reads the processor's memory without an operation."""

    def refuse(*_: object) -> None:
        raise RuntimeError("a recording cannot read a value on the host")

    with mock.patch.object(Tensor, "tolist", refuse), mock.patch.object(Tensor, "numpy", refuse):
        yield


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _key(tensor: Tensor) -> object:
    return _storage(tensor), tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype
