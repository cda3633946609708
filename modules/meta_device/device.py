"""A simulated device on which code runs unchanged without storing or computing anything.

Tensors are on torch's meta device, but report that they are on the train device or in RAM.
Autocast, which the meta device lacks, is done here as torch does it elsewhere; attention takes the
memory-efficient form, as on every GPU and CPU. torch's own fake tensors know devices and autocast,
but not those of a GPU in a build for CPUs.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint

from modules.meta_device.autocast import CAST_FUNCTIONS, Autocast, DeviceKind
from modules.meta_device.meter import Meter, Side

META = torch.device("meta")
HOST = torch.device("cpu")
DEVICE = torch.device("cpu", 0)
"""The simulated device: of a type that torch knows everywhere, and not equal to HOST."""


@contextmanager
def meta_device(kind: DeviceKind) -> Iterator[Meter]:
    """Yield the meter of a context in which meta tensors are on DEVICE or in RAM.

    Works for the current thread only.

    kind: What DEVICE simulates, including its autocast lists. With "cpu", DEVICE and RAM are the
    same memory.
    """
    meter, autocast = Meter(counts_host=kind == "cpu"), Autocast(kind)
    # Gradient checkpointing compares devices: torch reads them once inside an operation, where
    # the mode is off and tensors report "meta", and once outside.
    checks = checkpoint._allowed_determinism_checks_to_fns
    kept = checks["default"]
    checks["default"] = lambda tensor: {"shape": tensor.shape, "dtype": tensor.dtype}
    try:
        with autocast.patched(), meter, _Devices(meter, autocast):
            yield meter
    finally:
        checks["default"] = kept


class _Devices(TorchFunctionMode):
    """Answers for devices, and rewrites what asks for one."""

    def __init__(self, meter: Meter, autocast: Autocast) -> None:
        super().__init__()
        self._meter = meter
        self._autocast = autocast

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - the result of any function
        named = dict(kwargs or {})
        if func not in _HANDLED and named.get("device") is None:
            return func(*args, **named)
        if func == _DEVICE and args[0].is_meta:
            return self._device_of(args[0])
        if func is Tensor.backward:
            return self._backward(args[0])
        if func in _MOVE_FUNCTIONS:
            return self._move(func, args, named)
        if func is Tensor.tolist and args[0].is_meta:
            # Code that reads many values reads losses or error flags.
            return torch.zeros(args[0].shape, dtype=args[0].dtype).tolist()
        args, named = self._autocast.cast(func, args, named)
        if func is functional.scaled_dot_product_attention and args[0].is_meta:
            return attention(*args, **named)
        if named.get("device") is not None:
            return self._create(func, args, named)
        return func(*args, **named)

    def _backward(self, loss: Tensor) -> None:
        """Run `loss.backward()` so that hooks and recomputation use this device as well."""
        start = torch.ones_like(loss)
        with self:  # torch disables a mode while its handler runs
            torch.autograd.Variable._execution_engine.run_backward(
                (loss,), (start,), False, False, (), allow_unreachable=True, accumulate_grad=True
            )

    def _device_of(self, tensor: Tensor) -> torch.device:
        return DEVICE if self._meter.side_of(tensor) == "device" else HOST

    def _create(
        self, func: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:  # noqa: ANN401
        """Create a tensor on the requested device."""
        device = torch.device(named["device"])
        if device == META:
            return func(*args, **named)
        if isinstance(named.get("generator"), torch.Generator):
            del named["generator"]  # no numbers are drawn
        named.pop("pin_memory", None)
        with self._meter.placing(_side(device)):
            return func(*args, **named | {"device": META})

    def _move(self, func: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:  # noqa: ANN401
        """Run `tensor.to` and the like: copy to the other side, or act as torch on one side."""
        tensor: Tensor = args[0]
        device, dtype, is_copy = _target(func, tensor, args[1:], named)
        if device == META:
            return tensor.to(device=META, dtype=dtype, copy=is_copy)
        if device is None:
            device = self._device_of(tensor) if tensor.is_meta else tensor.device
        side = _side(device)
        here = self._meter.side_of(tensor) if tensor.is_meta else "host"
        if side == here:
            return tensor.to(dtype=dtype, copy=is_copy)
        with self._meter.placing(side):
            return tensor.to(device=META, dtype=dtype, copy=True)


def _side(device: torch.device) -> Side:
    return "device" if device == DEVICE else "host"


def _target(
    func: Callable[..., Any], tensor: Tensor, args: tuple[Any, ...], named: Mapping[str, Any]
) -> tuple[torch.device | None, torch.dtype, bool]:
    """Return the device and dtype that `Tensor.to` and the like ask for, and whether to copy."""
    if func is Tensor.cpu:
        return HOST, tensor.dtype, False
    device, dtype = named.get("device"), named.get("dtype")
    for value in args:
        if isinstance(value, torch.dtype):
            dtype = value
        elif isinstance(value, str | torch.device):
            device = value
        elif isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
    flags = [value for value in args if isinstance(value, bool)]
    is_copy = bool(named.get("copy", len(flags) > 1 and flags[1]))
    return None if device is None else torch.device(device), dtype or tensor.dtype, is_copy


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return attention that saves its inputs, its output and one number per row.

    This CPU operator is torch's only one that works on the meta device, forward and backward; those
    of GPUs save the same.
    """
    assert not enable_gqa, "no network here shares keys among heads"
    result: Tensor = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )[0]
    return result


_DEVICE = Tensor.device.__get__
_MOVE_FUNCTIONS = frozenset({Tensor.to, Tensor.cpu})
_HANDLED = frozenset({_DEVICE, Tensor.backward, Tensor.tolist, *_MOVE_FUNCTIONS, *CAST_FUNCTIONS})
"""Functions that are handled here; everything else is left to torch."""
