"""Copies on streams of their own, beside what a graphics card computes.

Memory on the card is always given and taken back in the order of the computing stream: that one
waits for a copy before it uses the result, and before it gives memory away that a copy still reads.
So the peak does not depend on how far the processor runs ahead of the card, as it would with
`record_stream`, which holds memory until the processor sees that the copy is done.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from modules.memory.layers.transfer import all_copied, copied
from onetrainer.errors import UserError

MOST_LEAVING = 2
"""So many inputs at once are on their way to main memory, and still on the card."""


class StreamedWeights:
    """Brings what is announced to the card ahead of time; what it brings becomes pinned memory.

    Gradients come back when they are asked for, and whoever asks waits: they are used at once.
    """

    def __init__(self, train_device: torch.device, offload_device: torch.device) -> None:
        self._train_device = train_device
        self._temp_device = offload_device
        self._arrivals = _Arrivals(train_device)

    def to_device(self, tensor: Tensor) -> Tensor:
        arrived = self._arrivals.take(tensor, _mark(tensor))
        if arrived is not None:
            return arrived
        # A part's first layer is never announced, nor is its last one in backward.
        if _is_plain(tensor):
            _pin(tensor)
        return copied(tensor, self._train_device)

    def all_to_host(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        return all_copied(gradients, self._temp_device)

    def prefetch(self, tensors: Sequence[Tensor]) -> None:
        """What was announced before and not fetched is forgotten."""
        plain = [tensor for tensor in tensors if _is_plain(tensor)]
        for tensor in plain:
            _pin(tensor)
        self._arrivals.expect([(tensor, _mark(tensor)) for tensor in plain])


class StreamedInputs:
    """Takes inputs to pinned main memory while the card computes with them, and back in backward.

    What `to_host` gives may still be under way, and is for `to_device` alone.
    """

    def __init__(self, train_device: torch.device) -> None:
        self._train_device = train_device
        self._stream = torch.cuda.Stream(train_device)  # type: ignore[no-untyped-call] # torch's
        self._leaving: deque[tuple[Tensor, torch.cuda.Event]] = deque()
        self._arrivals = _Arrivals(train_device)

    @torch.no_grad()
    def to_host(self, tensor: Tensor) -> Tensor:
        self._settle(MOST_LEAVING - 1)
        source = tensor.detach()
        with _pinning(source, "hardware.offload_activations"):
            host = torch.empty_like(source, device="cpu", pin_memory=True)
        self._stream.wait_stream(torch.cuda.current_stream(self._train_device))
        with torch.cuda.stream(self._stream):
            host.copy_(source, non_blocking=True)
        self._leaving.append((source, self._stream.record_event()))
        return host

    def to_device(self, tensor: Tensor) -> Tensor:
        self._settle(0)
        arrived = self._arrivals.take(tensor)
        return copied(tensor, self._train_device) if arrived is None else arrived

    def prefetch(self, tensors: Sequence[Tensor]) -> None:
        """What was announced before and not fetched is forgotten."""
        self._settle(0)
        self._arrivals.expect([(tensor, None) for tensor in tensors])

    def _settle(self, most: int) -> None:
        """Lets computing wait until no more than so many are on their way."""
        while len(self._leaving) > most:
            _, gone = self._leaving.popleft()
            torch.cuda.current_stream(self._train_device).wait_event(gone)


@dataclass(frozen=True)
class _Arrival:
    """A copy under way. mark: tells whether the source has changed since."""

    source: Tensor
    mark: object
    copy: Tensor
    landed: torch.cuda.Event


class _Arrivals:
    """Copies from pinned memory that come to a card on a stream of their own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call] # torch's
        self._coming: dict[int, _Arrival] = {}

    def take(self, tensor: Tensor, mark: object = None) -> Tensor | None:
        """The copy of a tensor; None if it was not expected, or has changed since it was."""
        arrival = self._coming.pop(id(tensor), None)
        if arrival is None:
            return None
        self._computing.wait_event(arrival.landed)
        return arrival.copy if arrival.mark == mark else None

    @torch.no_grad()
    def expect(self, tensors: Sequence[tuple[Tensor, object]]) -> None:
        """Begins to copy tensors, each with its mark; what else is coming is forgotten."""
        for arrival in self._coming.values():
            self._computing.wait_event(arrival.landed)
        self._coming.clear()
        # On memory that computing may have given back only just now.
        copies = [
            torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device=self._device)
            for t, _ in tensors
        ]
        self._stream.wait_stream(self._computing)
        for (tensor, mark), copy in zip(tensors, copies, strict=True):
            with torch.cuda.stream(self._stream):
                copy.copy_(tensor, non_blocking=True)
            landed = self._stream.record_event()
            self._coming[id(tensor)] = _Arrival(tensor, mark, copy, landed)

    @property
    def _computing(self) -> torch.cuda.Stream:
        return torch.cuda.current_stream(self._device)


def _mark(weight: Tensor) -> tuple[int, int]:
    """Changes when a weight is written in place by operations of torch, or exchanged for another.

    What is written through `.data`, or by kernels that go around torch, it does not see. Nothing is
    written so between announcing and fetching: a layer is announced by its neighbor in the same
    pass, and what trains moves only after its gradient has come, which is after it was fetched.
    Announced in vain are the layers before the first that a backward pass reaches; they are frozen.
    """
    return weight._version, weight.data_ptr()


def _is_plain(tensor: Tensor) -> bool:
    """Whether it is ordinary memory: quantised tensors and their like move in ways of their own."""
    return type(tensor.data) is Tensor


def _pin(tensor: Tensor) -> None:
    """Puts a tensor's numbers into memory that the card reads by itself, for good."""
    if tensor.is_pinned():
        return
    with _pinning(tensor, "hardware.offload_layers"):
        tensor.data = tensor.data.pin_memory()


@contextmanager
def _pinning(tensor: Tensor, setting: str) -> Iterator[None]:
    """Within, memory as large as a tensor is pinned. Raises UserError if there is too little.

    setting: whose value decides how much is pinned.
    """
    try:
        yield
    except RuntimeError as error:
        raise UserError(
            "hardware.prefetch: not enough main memory can be pinned for what waits there",
            f"{tensor.numel() * tensor.element_size() / 2**20:.0f} MiB more were needed ({error})",
            f"Turn hardware.prefetch off, or lower {setting}",
        ) from error
