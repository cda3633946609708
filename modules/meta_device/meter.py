"""Counting what tensors take: alive now, at the peak, and what of it belongs to what.

Works where nothing is stored, on torch's meta device, and counts whole storages: views are free.
Source for the way: torch.distributed._tools.mem_tracker.
"""

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from modules.meta_device.shapes import Shapes

Side = Literal["device", "host"]
"""Where something is: on the train device, or in main memory beside it."""

ROUNDED_TO = 512
"""Bytes: what CUDA's allocator gives are multiples of it (kMinBlockSize in its source)."""

_aten = torch.ops.aten
# Change their arguments in place and allocate nothing; there are none for the meta device.
_SILENT = frozenset(
    {
        _aten._fused_adam_.default,
        _aten._fused_adam_.tensor_lr,
        _aten._fused_adamw_.default,
        _aten._fused_adamw_.tensor_lr,
        _aten._fused_sgd_.default,
        _aten._fused_sgd_.tensor_lr,
        _aten._fused_adagrad_.default,
    }
)
_SILENT_NAMES = "bitsandbytes::optimizer_update"


@dataclass
class _Held:
    """A storage. size: in bytes."""

    part: str
    size: int
    side: Side
    reference: "weakref.ref[torch.UntypedStorage]"


@dataclass(frozen=True)
class Peak:
    """The highest sum that was alive at one time, in bytes, and what it was made of."""

    size: int
    parts: Mapping[str, int]


class Meter(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's modes have no types
    """Counts storages on the meta device from their first operation to their end.

    What an operation makes is where its operands are: in main memory if all of them are, else on
    the device. Values that somebody asks for are 1, as there are none.
    counts_host: whether the device's memory is main memory, so that everything counts.
    """

    def __init__(self, *, counts_host: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # as above
        self._held: dict[int, _Held] = {}
        self._sums: dict[Side, dict[str, int]] = {"device": {}, "host": {}}
        self._counts_host = counts_host
        self._now = 0
        self._peak = Peak(0, {})
        self._part = "activations"
        self._side: Side | None = None
        self._shapes = Shapes()

    def side_of(self, tensor: Tensor) -> Side:
        """Where a tensor is; what was never seen is on the device."""
        held = self._held.get(_key(tensor))
        return held.side if held else "device"

    def alive(self, side: Side = "device") -> dict[str, int]:
        """Bytes alive now, by part; those on the device with all that counts there."""
        found = dict(self._sums[side])
        if side == "device" and self._counts_host:
            for part, size in self._sums["host"].items():
                found[part] = found.get(part, 0) + size
        return {part: size for part, size in found.items() if size}

    @property
    def peak(self) -> Peak:
        """The highest sum on the device since `restart`."""
        return self._peak

    def restart(self) -> None:
        """From now on only higher sums than now count."""
        self._peak = Peak(self._now, self.alive())

    def assign(self, tensor: Tensor, part: str) -> None:
        """Says to what a tensor's memory belongs, wherever it came from."""
        held = self._held.get(_key(tensor))
        if held is None:
            self._hold(tensor, part, self._side or "device")
            return
        self._add(held, -held.size)
        held.part = part
        self._add(held, held.size)

    def size_of(self, tensor: Tensor) -> int:
        """Bytes of a tensor's whole storage, as they count here."""
        return _rounded(tensor.untyped_storage().nbytes())

    def move(self, tensor: Tensor, side: Side) -> None:
        """Says where a tensor is, wherever it was."""
        held = self._held[_key(tensor)]
        if held.side != side:
            self._add(held, -held.size)
            held.side = side
            self._add(held, held.size)

    @contextmanager
    def making(self, part: str) -> Iterator[None]:
        """Within, what is made belongs to a part."""
        before, self._part = self._part, part
        try:
            yield
        finally:
            self._part = before

    @contextmanager
    def placing(self, side: Side) -> Iterator[None]:
        """Within, what is made is at a side, wherever it is made from."""
        before, self._side = self._side, side
        try:
            yield
        finally:
            self._side = before

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - an operator of torch
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        # Modes of functions would see every look at a shape in here.
        with torch._C.DisableTorchFunction():
            if func is _aten._local_scalar_dense.default and args[0].is_meta:
                return 1.0 if args[0].is_floating_point() else 1
            if func in _SILENT or func.name().startswith(_SILENT_NAMES):
                return None
            made = self._shapes.made(func, args, kwargs or {})
            for tensor in tensors_in(made):
                if tensor.is_meta and _key(tensor) not in self._held:
                    self._hold(tensor, self._part, self._side or self._side_like(args))
            return made

    def _side_like(self, operands: tuple[Any, ...]) -> Side:
        """On the device unless all operands are in main memory."""
        if not any(self._sums["host"].values()):
            return "device"
        sides = [self.side_of(one) for one in tensors_in(operands) if one.is_meta]
        return "host" if sides and all(side == "host" for side in sides) else "device"

    def _hold(self, tensor: Tensor, part: str, side: Side) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, _rounded(storage.nbytes())
        reference = weakref.ref(storage, lambda _: self._release(key))
        self._held[key] = _Held(part, size, side, reference)
        self._add(self._held[key], size)
        if self._now > self._peak.size:
            self._peak = Peak(self._now, self.alive())

    def _release(self, key: int) -> None:
        held = self._held.pop(key)
        self._add(held, -held.size)

    def _add(self, held: _Held, size: int) -> None:
        sums = self._sums[held.side]
        sums[held.part] = sums.get(held.part, 0) + size
        if held.side == "device" or self._counts_host:
            self._now += size


def _key(tensor: Tensor) -> int:
    key: int = tensor.untyped_storage()._cdata  # the storage's address
    return key


def _rounded(size: int) -> int:
    return -(-size // ROUNDED_TO) * ROUNDED_TO


def tensors_in(values: object) -> Iterator[Tensor]:
    """The tensors among an operator's operands or results, or in an optimizer's state.

    Of those that wrap others, as torchao's do, the ones inside.
    """
    if type(values) is Tensor or type(values) is nn.Parameter:
        yield values
    elif isinstance(values, Tensor):
        if is_traceable_wrapper_subclass(values):
            names, _ = values.__tensor_flatten__()
            yield from tensors_in([getattr(values, name) for name in names])
        else:
            yield values
    elif isinstance(values, Mapping):
        yield from tensors_in(list(values.values()))
    elif isinstance(values, tuple | list):
        for value in values:
            yield from tensors_in(value)
