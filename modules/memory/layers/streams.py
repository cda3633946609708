"""Copies on CUDA streams of their own, concurrent with computation.

GPU memory is always allocated and freed in the order of the computing stream: it waits for a copy
before it uses the result, and before it frees memory that a copy still reads. So the peak does not
depend on how far the processor runs ahead of the GPU, as it would with `record_stream`, which
holds memory until the processor sees that the copy is done.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from modules.memory.layers.packing import Packed, views_in
from modules.memory.layers.transfer import copy_all_to_device, copy_to_device
from onetrainer.errors import UserError

MAX_OUTGOING = 2
"""Inputs that may be on their way to host memory, and still on the GPU, at the same time."""


class StreamedWeights:
    """Transfer of weights that prefetches to the GPU, and pins the memory of what it prefetches.

    What is announced together, the weights of a layer, is one piece of pinned memory, one copy and
    one event. Gradients are copied back synchronously: the optimizer uses them at once.
    """

    def __init__(self, train_device: torch.device, offload_device: torch.device) -> None:
        self._train_device = train_device
        self._offload_device = offload_device
        self._arrivals = _Arrivals(train_device)
        self._packed: dict[tuple[int, ...], Packed] = {}

    def to_device(self, tensor: Tensor) -> Tensor:
        copy = self._arrivals.take(tensor, _version(tensor))
        if copy is not None:
            return copy
        # A component's first layer is never prefetched, nor is its last one in backward.
        if _is_plain(tensor):
            _pin(tensor)
        return copy_to_device(tensor, self._train_device)

    def all_to_host(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        return copy_all_to_device(gradients, self._offload_device)

    def prefetch(self, tensors: Sequence[Tensor]) -> None:
        """Start to copy tensors; earlier prefetches that were not fetched are dropped."""
        plain = [tensor for tensor in tensors if _is_plain(tensor)]
        packed = self._pack(plain)
        expected = [(tensor, _version(tensor)) for tensor in plain]
        self._arrivals.expect_packed(packed.memory, expected)

    def _pack(self, tensors: Sequence[Tensor]) -> Packed:
        """Move tensors' data into one piece of pinned memory, unless they are still there."""
        key = tuple(map(id, tensors))
        packed = self._packed.get(key)
        if packed is None or not packed.holds(tensors):
            with _pinning(tensors, "hardware.offload_layers"):
                packed = Packed.of([tensor.data for tensor in tensors])
            for tensor, place in zip(tensors, packed.tensors, strict=True):
                tensor.data = place
            self._packed[key] = packed
        return packed


class StreamedInputs:
    """Transfer of inputs to pinned host memory while the GPU computes, and back in backward.

    The copy that `to_host` returns may be incomplete; only `to_device` may read it.
    """

    def __init__(self, train_device: torch.device) -> None:
        self._train_device = train_device
        self._stream = torch.cuda.Stream(train_device)  # type: ignore[no-untyped-call] # torch's
        self._outgoing: deque[tuple[Tensor, torch.cuda.Event]] = deque()
        self._arrivals = _Arrivals(train_device)

    @torch.no_grad()
    def to_host(self, tensor: Tensor) -> Tensor:
        self._wait_for_outgoing(MAX_OUTGOING - 1)
        source = tensor.detach()
        with _pinning([source], "hardware.offload_activations"):
            host = torch.empty_like(source, device="cpu", pin_memory=True)
        self._stream.wait_stream(torch.cuda.current_stream(self._train_device))
        with torch.cuda.stream(self._stream):
            host.copy_(source, non_blocking=True)
        self._outgoing.append((source, self._stream.record_event()))
        return host

    def to_device(self, tensor: Tensor) -> Tensor:
        self._wait_for_outgoing(0)
        copy = self._arrivals.take(tensor)
        return copy_to_device(tensor, self._train_device) if copy is None else copy

    def prefetch(self, tensors: Sequence[Tensor]) -> None:
        """Start to copy tensors; earlier prefetches that were not fetched are dropped."""
        self._wait_for_outgoing(0)
        self._arrivals.expect([(tensor, None) for tensor in tensors])

    def _wait_for_outgoing(self, most: int) -> None:
        """Make the computing stream wait until at most this many copies are incomplete."""
        while len(self._outgoing) > most:
            _, copied = self._outgoing.popleft()
            torch.cuda.current_stream(self._train_device).wait_event(copied)


@dataclass(frozen=True)
class _Arrival:
    """A copy in progress. version: differs once the source has changed."""

    source: Tensor
    version: object
    copy: Tensor
    copied: torch.cuda.Event


class _Arrivals:
    """Copies from pinned memory to a GPU on a stream of their own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call] # torch's
        self._expected: dict[int, _Arrival] = {}

    def take(self, tensor: Tensor, version: object = None) -> Tensor | None:
        """Return the copy of a tensor; None if it was not expected, or has changed since."""
        arrival = self._expected.pop(id(tensor), None)
        if arrival is None:
            return None
        self._computing.wait_event(arrival.copied)
        return arrival.copy if arrival.version == version else None

    @torch.no_grad()
    def expect(self, tensors: Sequence[tuple[Tensor, object]]) -> None:
        """Start to copy tensors, each with its version; drop what was expected before."""
        self._drop_expected()
        # In memory that the computing stream may have freed only just now.
        copies = [
            torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device=self._device)
            for t, _ in tensors
        ]
        self._stream.wait_stream(self._computing)
        for (tensor, version), copy in zip(tensors, copies, strict=True):
            with torch.cuda.stream(self._stream):
                copy.copy_(tensor, non_blocking=True)
            copied = self._stream.record_event()
            self._expected[id(tensor)] = _Arrival(tensor, version, copy, copied)

    @torch.no_grad()
    def expect_packed(self, memory: Tensor, tensors: Sequence[tuple[Tensor, object]]) -> None:
        """Do the same with tensors that are packed in pinned memory, as one copy."""
        self._drop_expected()
        if not tensors:
            return
        there = torch.empty_like(memory, device=self._device)
        self._stream.wait_stream(self._computing)
        with torch.cuda.stream(self._stream):
            there.copy_(memory, non_blocking=True)
        copied = self._stream.record_event()
        copies = views_in(there, [tensor for tensor, _ in tensors])
        for (tensor, version), copy in zip(tensors, copies, strict=True):
            self._expected[id(tensor)] = _Arrival(tensor, version, copy, copied)

    def _drop_expected(self) -> None:
        for arrival in self._expected.values():
            self._computing.wait_event(arrival.copied)
        self._expected.clear()

    @property
    def _computing(self) -> torch.cuda.Stream:
        return torch.cuda.current_stream(self._device)


def _version(weight: Tensor) -> tuple[int, int]:
    """Return what changes when torch writes to a weight in place, or its memory is replaced.

    Writes through `.data`, or by kernels that bypass torch, are not detected. None occur between
    prefetch and fetch: a layer is prefetched by its neighbor in the same pass, and a trainable
    weight is updated only after its gradient has come, which is after it was fetched. Only layers
    before the first that a backward pass reaches are prefetched in vain; they are frozen.
    """
    return weight._version, weight.data_ptr()


def _is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor has ordinary memory; quantized tensors cannot be pinned in place."""
    return type(tensor.data) is Tensor


def _pin(tensor: Tensor) -> None:
    """Move a tensor's data permanently to pinned memory, which the GPU reads directly."""
    if tensor.is_pinned():
        return
    with _pinning([tensor], "hardware.offload_layers"):
        tensor.data = tensor.data.pin_memory()


@contextmanager
def _pinning(tensors: Sequence[Tensor], setting: str) -> Iterator[None]:
    """Pin memory as large as tensors within the context.

    Args:
        tensors: Whose size is pinned.
        setting: The config key that determines how much is pinned in all.

    Raises:
        UserError: Not enough memory can be pinned.
    """
    try:
        yield
    except RuntimeError as error:
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        raise UserError(
            "hardware.prefetch: not enough host memory can be pinned for offloading",
            f"{size / 2**20:.0f} MiB more were needed ({error})",
            f"Turn off hardware.prefetch, or lower {setting}",
        ) from error
