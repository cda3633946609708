"""What lies on the pretended GPU: which storages, how many bytes, what was moved and waited for.

A storage is known by its address, and an entry lives as long as the storage does: torch keeps one
Python object for each storage, which dies with it, so that a weak reference reports the end.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from tests.pretend.places import callers_place

CUDA = torch.device("cuda:0")
"""The place that is the GPU, whatever it is called."""
CPU = torch.device("cpu")
# Of tensors that C++ has made without saying for whom: they take the place of whom they meet.
FLOATING = torch.device("cpu:0")
NAME = CUDA
"""What programs call the GPU just now."""
NOT_ON_MPS = (torch.float64, torch.float8_e4m3fn, torch.float8_e5m2)
TOTAL_MEMORY = 80 * 2**30
"""What a card without a stated capacity says that it has."""


@dataclass
class Transfers:
    """Copies in one direction."""

    count: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """Counts one more."""
        self.count += 1
        self.bytes += size


@dataclass(frozen=True)
class Sync:
    """The host has waited for the GPU. what: by which call. where: "file:line" of the program."""

    what: str
    where: str


class _Watch(weakref.ref[torch.UntypedStorage]):
    """A weak reference to a storage that knows its address."""

    __slots__ = ("address",)
    address: int


class Entry:
    """What is known of a storage. Those without an entry are ordinary host memory."""

    __slots__ = (
        "bytes",
        "home",
        "is_pinned",
        "place",
        "reads",
        "recorded",
        "tick",
        "watch",
        "writer",
    )

    def __init__(self, place: torch.device, size: int, watch: _Watch) -> None:
        self.place = place
        self.bytes = size
        self.watch = watch  # kept, or it would not report
        self.is_pinned = False
        # Who wrote it last, and when by the writer's clock; and who has read it since. See streams.
        self.writer: object | None = None
        self.tick = 0
        self.reads: dict[object, int] | None = None
        # For whom it was made, and who was named to the allocator as another user.
        self.home: object | None = None
        self.recorded: set[object] | None = None


class Ledger:
    """The account of all storages that are not plain host memory.

    capacity: how many bytes the GPU has; None means any number. is_numberless: whether tensors on
    torch's meta device are those that this is about, and not what the program has put there.
    """

    def __init__(self, capacity: int | None, *, is_numberless: bool = False) -> None:
        self.capacity = capacity
        self.is_numberless = is_numberless
        self.allocated = 0
        self.peak = 0
        self.to_device = Transfers()
        self.to_host = Transfers()
        self.syncs: list[Sync] = []
        self.module_moves: list[str] = []
        self.entries: dict[int, Entry] = {}
        self.on_free: Callable[[Entry], None] | None = None
        self._is_quiet = False

    def entry_of(self, tensor: Tensor) -> Entry | None:
        """The entry of a tensor's storage, if it has one."""
        return self.entries.get(tensor.untyped_storage()._cdata)

    def place_of(self, tensor: Tensor) -> torch.device:
        """CUDA, CPU or FLOATING. A wrapper's place is that of what it holds."""
        entry = self.entries.get(_inside(tensor).untyped_storage()._cdata)
        return CPU if entry is None else entry.place

    def device_of(self, tensor: Tensor) -> torch.device:
        """The device that a program sees."""
        if self.place_of(tensor) is CUDA:
            return seen()
        return torch.device("meta") if tensor.is_meta and not self.is_numberless else CPU

    def put(self, tensor: Tensor, place: torch.device) -> None:
        """Notes where a tensor's storage lies, also one that was known before.

        Raises torch.OutOfMemoryError if the GPU is full.
        """
        require_format(tensor, place)
        storage = tensor.untyped_storage()
        entry = self.entries.get(storage._cdata)
        if entry is None:
            if place is not CPU:
                self.add(storage, place)
        elif entry.place is not place:
            self._leave(entry)
            entry.place = place
            self._enter(entry)

    def add(self, storage: torch.UntypedStorage, place: torch.device) -> Entry:
        """Notes a storage that was not known. Raises torch.OutOfMemoryError if the GPU is full."""
        address = storage._cdata
        watch = _Watch(storage, self._forget)
        watch.address = address
        entry = self.entries[address] = Entry(place, storage.nbytes(), watch)
        self._enter(entry)
        return entry

    def pin(self, tensor: Tensor) -> None:
        """Notes that a tensor's host memory is pinned."""
        if seen().type == "mps":
            raise RuntimeError("there is nothing to pin for an Apple GPU")
        storage = tensor.untyped_storage()
        entry = self.entries.get(storage._cdata)
        if entry is None:
            entry = self.add(storage, CPU)
        entry.is_pinned = True

    def remeasure(self, tensor: Tensor) -> None:
        """Counts a storage that may have grown or shrunk."""
        storage = tensor.untyped_storage()
        entry = self.entries.get(storage._cdata)
        if entry is not None and entry.bytes != storage.nbytes():
            self._leave(entry)
            entry.bytes = storage.nbytes()
            self._enter(entry)

    def wait(self, what: str) -> None:
        """Notes that the host waits for the GPU."""
        if not self._is_quiet:
            self.syncs.append(Sync(what, callers_place()))

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Within, waiting is not noted: for what was noted as a whole."""
        before, self._is_quiet = self._is_quiet, True
        try:
            yield
        finally:
            self._is_quiet = before

    def close(self) -> None:
        """Forgets all storages; the counts stay."""
        self.entries.clear()

    def _enter(self, entry: Entry) -> None:
        if entry.place is not CUDA:
            return
        if self.capacity is not None and self.allocated + entry.bytes > self.capacity:
            # What could not be had is nowhere.
            entry.place = FLOATING
            raise torch.OutOfMemoryError(_full(entry.bytes, self.allocated, self.capacity))
        self.allocated += entry.bytes
        if self.allocated > self.peak:
            self.peak = self.allocated

    def _leave(self, entry: Entry) -> None:
        if entry.place is CUDA:
            self.allocated -= entry.bytes

    def _forget(self, watch: weakref.ref[torch.UntypedStorage]) -> None:
        assert isinstance(watch, _Watch)
        entry = self.entries.pop(watch.address, None)
        if entry is not None:
            self._leave(entry)
            if self.on_free is not None:
                self.on_free(entry)


def _inside(tensor: Tensor) -> Tensor:
    """The first plain tensor that a wrapper holds; a plain tensor itself."""
    while is_wrapper(type(tensor)):
        names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined] # wrappers have it
        tensor = getattr(tensor, names[0])
    return tensor


def replace(patches: ExitStack, owner: Any, name: str, value: object) -> None:
    """Replaces an attribute of a module or class until the patches are undone."""
    patches.enter_context(mock.patch.object(owner, name, value, create=True))


def seen() -> torch.device:
    """The GPU as programs see it: cuda:0, another number, or mps:0."""
    return NAME


def require_format(tensor: Tensor, place: torch.device) -> None:
    """Raises TypeError for a number format that Apple's GPUs lack."""
    if place is CUDA and tensor.dtype in NOT_ON_MPS and seen().type == "mps":
        raise TypeError(f"the MPS framework doesn't support {tensor.dtype}")


def is_wrapper(kind: type) -> bool:
    """Whether tensors of a class hold others and have no storage of their own."""
    return hasattr(kind, "__tensor_flatten__")


def _full(size: int, allocated: int, capacity: int) -> str:
    """CUDA's message."""
    asked, total, free = (n / 2**20 for n in (size, capacity, max(0, capacity - allocated)))
    return (
        f"CUDA out of memory. Tried to allocate {asked:.2f} MiB. GPU 0 has a total capacity of"
        f" {total:.2f} MiB of which {free:.2f} MiB is free. {allocated / 2**20:.2f} MiB is"
        " allocated by PyTorch"
    )
