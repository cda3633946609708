"""A simulated device on which code runs unchanged without storing or computing anything.

Tensors are on torch's meta device, but report that they are on the train device or in RAM.
Autocast, which the meta device lacks, is done here as torch does it elsewhere; attention takes the
memory- efficient form, as on every GPU and CPU.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any, Self

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


class MetaDevice(TorchFunctionMode):
    """Context in which meta tensors are on DEVICE or in RAM, and are counted.

    Works for the current thread only.

    Attributes:
        kind: What DEVICE simulates, including its autocast lists. With "cpu", DEVICE and RAM are
            the same memory.
    """

    device = DEVICE

    def __init__(self, kind: DeviceKind) -> None:
        super().__init__()
        self.kind = kind
        self.meter = Meter(counts_host=kind == "cpu")
        self._autocast = Autocast(kind)
        self._contexts = ExitStack()

    def __enter__(self) -> Self:
        self._contexts.enter_context(self._autocast.patched())
        self._contexts.enter_context(_without_device_check())
        self._contexts.enter_context(self.meter)
        super().__enter__()  # type: ignore[no-untyped-call] # torch's modes have no types
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call] # as above
        self._contexts.close()

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
        if func in _VALUE_FUNCTIONS and args[0].is_meta:
            return _VALUE_FUNCTIONS[func](args[0])
        if func is functional.scaled_dot_product_attention and args[0].is_meta:
            func = _attention
        args, named = self._autocast.cast(func, args, named)
        if named.get("device") is not None:
            return self._create(func, args, named)
        return func(*args, **named)

    def _backward(self, loss: Tensor) -> None:
        """Run `loss.backward()` so that hooks and recomputation use this device as well."""
        start = torch.ones_like(loss)
        # torch disables a mode while its handler runs, and backward calls functions of torch.
        super().__enter__()  # type: ignore[no-untyped-call] # as above
        try:
            torch.autograd.Variable._execution_engine.run_backward(
                (loss,), (start,), False, False, (), allow_unreachable=True, accumulate_grad=True
            )
        finally:
            super().__exit__(None, None, None)  # type: ignore[no-untyped-call] # as above

    def _device_of(self, tensor: Tensor) -> torch.device:
        return self.device if self.meter.side_of(tensor) == "device" else HOST

    def _side(self, device: torch.device) -> Side:
        return "device" if device == self.device else "host"

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
        with self.meter.placing(self._side(device)):
            return func(*args, **named | {"device": META})

    def _move(self, func: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:  # noqa: ANN401
        """Run `tensor.to` and the like: copy to the other side, or act as torch on one side."""
        tensor: Tensor = args[0]
        device, dtype, is_copy = _target(func, tensor, args[1:], named)
        if device == META:
            return tensor.to(device=META, dtype=dtype, copy=is_copy)
        if device is None:
            device = self._device_of(tensor) if tensor.is_meta else tensor.device
        side = self._side(device)
        if not tensor.is_meta and side == "host":
            return tensor.to(dtype=dtype, copy=is_copy)
        if tensor.is_meta and side == self.meter.side_of(tensor):
            return tensor.to(dtype=dtype, copy=is_copy)
        with self.meter.placing(side):
            return tensor.to(device=META, dtype=dtype, copy=True)


@contextmanager
def _without_device_check() -> Iterator[None]:
    """Disable the comparison of devices in gradient checkpointing.

    torch reads them once inside an operation, where the mode is off and tensors report "meta", and
    once outside.
    """
    checks = checkpoint._allowed_determinism_checks_to_fns
    kept = checks["default"]
    checks["default"] = lambda tensor: {"shape": tensor.shape, "dtype": tensor.dtype}
    try:
        yield
    finally:
        checks["default"] = kept


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


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention that saves its inputs, its output and one number per row.

    This CPU operator is torch's only one that works on the meta device, forward and backward; those
    of GPUs save the same.
    """
    assert not enable_gqa, "no network here shares keys among heads"
    result: Tensor = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )[0]
    return result


def _stand_in(tensor: Tensor) -> float | int | bool:
    """Return a number in place of a value that does not exist."""
    if tensor.dtype == torch.bool:
        return True
    return 1.0 if tensor.is_floating_point() else 1


def _stand_ins(tensor: Tensor) -> Any:  # noqa: ANN401 - as deep as the tensor has axes
    """Return zeros: code that reads many values reads losses or error flags."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype).tolist()


_DEVICE = Tensor.device.__get__
_MOVE_FUNCTIONS = frozenset({Tensor.to, Tensor.cpu})
_VALUE_FUNCTIONS: Mapping[Callable[..., Any], Callable[[Tensor], Any]] = MappingProxyType(
    {
        Tensor.item: _stand_in,
        Tensor.tolist: _stand_ins,
        Tensor.__bool__: bool,
        Tensor.__float__: lambda tensor: float(_stand_in(tensor)),
        Tensor.__int__: lambda tensor: int(_stand_in(tensor)),
    }
)
_HANDLED = frozenset(
    {
        _DEVICE,
        Tensor.backward,
        functional.scaled_dot_product_attention,
        *_MOVE_FUNCTIONS,
        *_VALUE_FUNCTIONS,
        *CAST_FUNCTIONS,
    }
)
"""Functions that are handled here; everything else is left to torch."""
