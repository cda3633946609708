"""A device that does not exist: code runs on it unchanged, and nothing is stored or computed.

Tensors are on torch's meta device, and tell whoever asks that they are on the train device or in
main memory. Autocast, which torch does not have on the meta device, is done here as torch does it
elsewhere; attention takes the form that keeps no matrix, as it does on every card and processor.
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
"""The imagined device: of a type that torch knows everywhere, and not equal to HOST."""


class Imagined(TorchFunctionMode):
    """Within, tensors on the meta device are on DEVICE, or in main memory, and are counted.

    kind: what stands behind DEVICE. With "cpu" both are the same memory; autocast follows its
    lists. Not for threads: the context is the current thread's.
    """

    device = DEVICE

    def __init__(self, kind: DeviceKind) -> None:
        super().__init__()
        self.kind = kind
        self.meter = Meter(counts_host=kind == "cpu")
        self._autocast = Autocast(kind)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self._autocast.watched())
        self._stack.enter_context(_without_device_check())
        self._stack.enter_context(self.meter)
        super().__enter__()  # type: ignore[no-untyped-call] # torch's modes have no types
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call] # as above
        self._stack.close()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the function gives
        named = dict(kwargs or {})
        if func not in _WATCHED and named.get("device") is None:
            return func(*args, **named)
        if func == _DEVICE and args[0].is_meta:
            return self._device_of(args[0])
        if func is Tensor.backward:
            return self._backward(args[0])
        if func in _MOVES:
            return self._moved(func, args, named)
        if func in _VALUES and args[0].is_meta:
            return _VALUES[func](args[0])
        if func is functional.scaled_dot_product_attention and args[0].is_meta:
            func = _attention
        args, named = self._autocast.cast(func, args, named)
        if named.get("device") is not None:
            return self._made(func, args, named)
        return func(*args, **named)

    def _backward(self, loss: Tensor) -> None:
        """`loss.backward()`, whose hooks and second forward passes are on this device as well."""
        start = torch.ones_like(loss)
        # A mode is left for as long as it answers, and torch's own functions would ask it again.
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

    def _made(self, func: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:  # noqa: ANN401
        """What a factory makes that was told where."""
        device = torch.device(named["device"])
        if device == META:
            return func(*args, **named)
        if isinstance(named.get("generator"), torch.Generator):
            del named["generator"]  # there is nothing to draw
        named.pop("pin_memory", None)
        with self.meter.placing(self._side(device)):
            return func(*args, **named | {"device": META})

    def _moved(self, func: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:  # noqa: ANN401
        """`tensor.to` and its like: a copy on the other side, or what torch does on one side."""
        tensor: Tensor = args[0]
        device, dtype, is_copied = _target(func, tensor, args[1:], named)
        if device == META:
            return tensor.to(device=META, dtype=dtype, copy=is_copied)
        if device is None:
            device = self._device_of(tensor) if tensor.is_meta else tensor.device
        side = self._side(device)
        if not tensor.is_meta and side == "host":
            return tensor.to(dtype=dtype, copy=is_copied)
        if tensor.is_meta and side == self.meter.side_of(tensor):
            return tensor.to(dtype=dtype, copy=is_copied)
        with self.meter.placing(side):
            return tensor.to(device=META, dtype=dtype, copy=True)


@contextmanager
def _without_device_check() -> Iterator[None]:
    """Within, checkpoints do not compare the devices of what they compute twice.

    torch asks for them once inside an operation, where a mode is left and tensors tell "meta", and
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
    """Where `Tensor.to`, `cpu` or `cuda` is asked to bring a tensor, as what, and whether anew."""
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
    is_copied = bool(named.get("copy", len(flags) > 1 and flags[1]))
    return None if device is None else torch.device(device), dtype or tensor.dtype, is_copied


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
    """Attention that keeps what goes in, what comes out and a number a row.

    The processor's operator is the one of torch's that works on the meta device, forward and
    backward; those of cards keep the same.
    """
    assert not enable_gqa, "no network here shares keys among heads"
    made: Tensor = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )[0]
    return made


def _number(tensor: Tensor) -> float | int | bool:
    """What is told of values that there are none of."""
    if tensor.dtype == torch.bool:
        return True
    return 1.0 if tensor.is_floating_point() else 1


def _numbers(tensor: Tensor) -> Any:  # noqa: ANN401 - as deep as the tensor has axes
    """Zeros: who asks for many values asks for losses, or for what went wrong."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype).tolist()


_DEVICE = Tensor.device.__get__
_MOVES = frozenset({Tensor.to, Tensor.cpu})
_VALUES: Mapping[Callable[..., Any], Callable[[Tensor], Any]] = MappingProxyType(
    {
        Tensor.item: _number,
        Tensor.tolist: _numbers,
        Tensor.__bool__: bool,
        Tensor.__float__: lambda tensor: float(_number(tensor)),
        Tensor.__int__: lambda tensor: int(_number(tensor)),
    }
)
_WATCHED = frozenset(
    {
        _DEVICE,
        Tensor.backward,
        functional.scaled_dot_product_attention,
        *_MOVES,
        *_VALUES,
        *CAST_FUNCTIONS,
    }
)
"""What is not torch's own affair here."""
