"""Memory of tensors: alive now, at the peak, and by part.

Works on torch's meta device, where nothing is stored, and counts whole storages: views are free.
Approach from torch.distributed._tools.mem_tracker, which counts by modules and on one device.
"""

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from modules.meta_device.shapes import SHAPE_CACHE

Side = Literal["device", "host"]
"""Whether something is on the train device or in RAM."""

ROUNDED_TO = 512
"""Bytes: sizes from CUDA's allocator are multiples of it (kMinBlockSize in its source)."""

# They change arguments in place and allocate nothing; the meta device does not support them.
_IN_PLACE_NAMES = (
    "aten::_fused_adam",
    "aten::_fused_sgd",
    "aten::_fused_adagrad",
    "bitsandbytes::optimizer_update",
)


@dataclass
class _Storage:
    """A storage; size in bytes."""

    part: str
    size: int
    side: Side
    reference: "weakref.ref[torch.UntypedStorage]"


class Meter(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's modes have no types
    """Counts storages on the meta device from their first operation to their end.

    Results are where their operands are: in RAM if all of them are, else on the device. Reading a
    value returns 1. counts_host: Whether RAM is the device's memory, so that everything counts.

    Attributes:
        peak: Bytes by part at the highest sum on the device since `restart`.
    """

    def __init__(self, *, counts_host: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # as above
        self.peak: Mapping[str, int] = {}
        self._storages: dict[int, _Storage] = {}
        self._sums: dict[Side, dict[str, int]] = {"device": {}, "host": {}}
        self._counts_host = counts_host
        self._current = self._peak_size = 0
        self._part = "activations"
        self._side: Side | None = None

    def side_of(self, tensor: Tensor) -> Side:
        """Return where a tensor is; unknown ones are on the device."""
        storage = self._storages.get(_key(tensor))
        return storage.side if storage else "device"

    def alive(self, side: Side = "device") -> dict[str, int]:
        """Return the bytes alive now by part; for "device" all that counts there."""
        found = dict(self._sums[side])
        if side == "device" and self._counts_host:
            for part, size in self._sums["host"].items():
                found[part] = found.get(part, 0) + size
        return {part: size for part, size in found.items() if size}

    def restart(self) -> None:
        """Reset the peak to the current sum."""
        self.peak, self._peak_size = self.alive(), self._current

    def assign(self, tensor: Tensor, part: str) -> None:
        """Assign a tensor's memory to a part."""
        storage = self._storages.get(_key(tensor))
        if storage is None:
            self._add_storage(tensor, part, self._side or "device")
            return
        self._add(storage, -storage.size)
        storage.part = part
        self._add(storage, storage.size)

    def move(self, tensor: Tensor, side: Side) -> None:
        """Record that a tensor is now on the device, or in host memory."""
        storage = self._storages[_key(tensor)]
        if storage.side != side:
            self._add(storage, -storage.size)
            storage.side = side
            self._add(storage, storage.size)

    @contextmanager
    def assigning_to(self, part: str) -> Iterator[None]:
        """Assign tensors created in this context to a part."""
        before, self._part = self._part, part
        try:
            yield
        finally:
            self._part = before

    @contextmanager
    def placing(self, side: Side) -> Iterator[None]:
        """Place tensors created in this context on a side, wherever their operands are."""
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
        # TorchFunctionModes would see every access to a shape in here.
        with torch._C.DisableTorchFunction():
            if func is torch.ops.aten._local_scalar_dense.default and args[0].is_meta:
                return 1.0 if args[0].is_floating_point() else 1
            if func.name().startswith(_IN_PLACE_NAMES):
                return None
            result = SHAPE_CACHE.call(func, args, kwargs or {})
            for tensor in tensors_in(result):
                if tensor.is_meta and _key(tensor) not in self._storages:
                    side = self._side or self._side_of_operands(args)
                    self._add_storage(tensor, self._part, side)
            return result

    def _side_of_operands(self, operands: tuple[Any, ...]) -> Side:
        """Return "device" unless all operands are in RAM."""
        if not any(self._sums["host"].values()):
            return "device"
        sides = [self.side_of(each) for each in tensors_in(operands) if each.is_meta]
        return "host" if sides and all(side == "host" for side in sides) else "device"

    def _add_storage(self, tensor: Tensor, part: str, side: Side) -> None:
        key, size = _key(tensor), size_of(tensor)
        reference = weakref.ref(tensor.untyped_storage(), lambda _: self._release(key))
        self._storages[key] = _Storage(part, size, side, reference)
        self._add(self._storages[key], size)
        if self._current > self._peak_size:
            self.restart()

    def _release(self, key: int) -> None:
        storage = self._storages.pop(key)
        self._add(storage, -storage.size)

    def _add(self, storage: _Storage, size: int) -> None:
        sums = self._sums[storage.side]
        sums[storage.part] = sums.get(storage.part, 0) + size
        if storage.side == "device" or self._counts_host:
            self._current += size


def _key(tensor: Tensor) -> int:
    key: int = tensor.untyped_storage()._cdata  # the storage's address
    return key


def size_of(tensor: Tensor) -> int:
    """Return the bytes of a tensor's whole storage, rounded as they are allocated."""
    return -(-tensor.untyped_storage().nbytes() // ROUNDED_TO) * ROUNDED_TO


def tensors_in(values: object) -> Iterator[Tensor]:
    """Yield the tensors among operands, results or optimizer state.

    Of tensors that wrap others, such as torchao's, the inner ones.
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
