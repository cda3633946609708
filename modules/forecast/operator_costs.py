"""What operators do, counted on any device, and how fast the device is."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any

import torch
from diffusers.models.attention import BasicTransformerBlock
from diffusers.models.resnet import ResnetBlock2D
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import flop_registry

from onetrainer.presets.step_work import DeviceSpeed, Operation, OperatorKind

_HEAD = 40
_aten = torch.ops.aten
_FLASH = _aten._scaled_dot_product_flash_attention
_FLASH_BACKWARD = _aten._scaled_dot_product_flash_attention_backward
# The CPU's attention, which the meta device uses too, is missing from torch's registry.
_EQUIVALENTS = {
    _aten._scaled_dot_product_flash_attention_for_cpu: _FLASH,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _FLASH_BACKWARD,
}
_OPERATOR_KINDS: Mapping[Any, OperatorKind] = {
    _aten.convolution: "convolution",
    _aten._convolution: "convolution",
    _aten.convolution_backward: "convolution",
    **dict.fromkeys(_EQUIVALENTS, "attention"),
    **dict.fromkeys(_EQUIVALENTS.values(), "attention"),
}


class OperatorCounter(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's modes have no types
    """Context that counts operators and their costs on any device; views are free.

    Attributes:
        operations: Number of calls of each operation.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # as above
        self.operations: Counter[Operation] = Counter()

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - an operator of torch
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        named = kwargs or {}
        made = func(*args, **named)
        if not _is_view(func):
            # TorchFunctionModes would see every access to a shape in here.
            with torch._C.DisableTorchFunction():
                self.operations[_operation(func, args, named, made)] += 1
        return made


@cache
def _is_view(func: Any) -> bool:  # noqa: ANN401 - an operator of torch
    aliases = [result.alias_info for result in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _operation(func: Any, args: Any, named: Mapping[str, Any], result: Any) -> Operation:  # noqa: ANN401
    packet = func._overloadpacket
    tensors = [*_tensors(args), *_tensors(tuple(named.values()))]
    bytes_moved = sum(
        tensor.numel() * tensor.element_size() for tensor in (*tensors, *_tensors(result))
    )
    dtype = tensors[0].dtype if tensors else torch.float32
    count: Callable[..., int] | None = flop_registry.get(_EQUIVALENTS.get(packet, packet))
    name = _dtype_name(dtype)
    if count is None:
        return Operation("other", name, 0, bytes_moved)
    kind = _OPERATOR_KINDS.get(packet, "product")
    flops = float(count(*args, **named, out_val=result))
    if kind == "attention":
        # A pair of tokens costs at least as much as with heads of this width.
        flops *= max(1, _HEAD / tensors[0].shape[-1])
    return Operation(kind, name, int(flops), bytes_moved)


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _tensors(values: Any) -> Iterator[Tensor]:  # noqa: ANN401 - any operand
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _tensors(value)


SECONDS_PER_RATE = 0.03
"""Duration of each measurement, in seconds, unless a single computation takes longer."""
LATENT_SIDES = (8, 32)
"""Sides of the latents that a device is measured with; a slow device with the first ones alone."""
_SLOW_SECONDS = 0.2
_CHANNELS = 160
_HEADS = 8
_NUMBERS = 1 << 24
_TINY = 16
_TEXT = 77  # tokens
_MEASURED_VARIANTS: tuple[OperatorKind, ...] = ("product", "convolution", "attention")


def measure_device(device: torch.device, dtype: torch.dtype) -> DeviceSpeed:
    """Measure how fast a device is now, in about a second; in a few where it is very slow.

    Operators reach less in a network than alone. The factor is measured with two blocks of a UNet,
    forward and backward. dtype: Of the UNet's matrix products.
    """
    small = _unet_blocks(_TINY, _TINY // 4, device, dtype)
    with OperatorCounter() as work:
        small()
    call_seconds = _duration(small) / work.operations.total()
    for side in LATENT_SIDES:
        large = _unet_blocks(_HEADS * _HEAD, side, device, dtype)
        with OperatorCounter() as work:
            large()
        seconds = _duration(large)
        if seconds > _SLOW_SECONDS:  # as of bf16 on a processor without instructions for it
            break
    ideal = _speed_alone(device, {dtype, torch.float32}, side, call_seconds)
    slower = max(1.0, seconds / ideal.seconds(work.operations))
    flops = {key: rate / slower for key, rate in ideal.flops.items()}
    return DeviceSpeed(flops, ideal.bytes_per_second / slower, call_seconds)


def _speed_alone(
    device: torch.device, dtypes: Collection[torch.dtype], side: int, call_seconds: float
) -> DeviceSpeed:
    """Measure the speed of single operators. side: Of the latents."""
    with torch.no_grad():
        flops = {
            f"{kind} {_dtype_name(dtype)}": _rate(_benchmark(kind, side, device, dtype))
            for dtype in dtypes
            for kind in _MEASURED_VARIANTS
        }
        numbers = torch.zeros(_NUMBERS, device=device)
        other = torch.zeros_like(numbers)
        bytes_moved = 3 * numbers.numel() * numbers.element_size()
        seconds = _duration(lambda: torch.add(numbers, other, out=numbers))
    return DeviceSpeed(flops, bytes_moved / seconds, call_seconds)


def _unet_blocks(
    width: int, side: int, device: torch.device, dtype: torch.dtype
) -> Callable[[], object]:
    """Return forward and backward of a residual and a transformer block, for one image."""
    heads = width // _HEAD or 1
    with torch.random.fork_rng(devices=[]):
        residual = ResnetBlock2D(in_channels=width, temb_channels=width, groups=_TINY // 2)
        transformer = BasicTransformerBlock(width, heads, width // heads, cross_attention_dim=width)
    for block in (residual, transformer):
        block.to(device, dtype).requires_grad_(False)
    image = torch.ones(1, width, side, side, device=device, dtype=dtype, requires_grad=True)
    time = torch.ones(1, width, device=device, dtype=dtype)
    text = torch.ones(1, _TEXT, width, device=device, dtype=dtype)

    def compute() -> object:
        tokens = residual(image, time).flatten(2).transpose(1, 2)
        made = transformer(tokens, encoder_hidden_states=text)
        return torch.autograd.grad(made.sum(), image)

    return compute


def _benchmark(
    kind: OperatorKind, side: int, device: torch.device, dtype: torch.dtype
) -> Callable[[], Tensor]:
    """Return a computation of a kind, of a size that occurs with latents of this side."""

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(shape, device=device, dtype=dtype)

    match kind:
        case "product":
            left, right = zeros(_TINY * side, _TINY * side), zeros(_TINY * side, _TINY * side)
            return lambda: left @ right
        case "convolution":
            kernel = zeros(_CHANNELS, _CHANNELS, 3, 3)
            image = zeros(1, _CHANNELS, side, side)
            return lambda: functional.conv2d(image, kernel, padding=1)
        case _:
            tokens = zeros(1, _HEADS, side**2, _HEAD)
            return lambda: functional.scaled_dot_product_attention(tokens, tokens, tokens)


def _rate(compute: Callable[[], Tensor]) -> float:
    """Return floating-point operations per second."""
    with OperatorCounter() as work:
        compute()
    flops = sum(operation.flops * count for operation, count in work.operations.items())
    return float(flops / _duration(compute))


def _duration(compute: Callable[[], object]) -> float:
    """Return the median duration of a computation under the current load, in seconds."""
    timer = Timer("run()", globals={"run": compute}, num_threads=torch.get_num_threads())
    return float(timer.blocked_autorange(min_run_time=SECONDS_PER_RATE).median)
