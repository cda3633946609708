"""How long computing takes before anything is computed: what operators do, how fast a machine is.

An operator takes as long as its arithmetic, as its memory traffic, or as being called, whichever is
longest (the roofline model: Williams et al. 2009, doi:10.1145/1498765.1498785).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import torch
from diffusers.models.attention import BasicTransformerBlock
from diffusers.models.resnet import ResnetBlock2D
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

Kind = Literal["product", "convolution", "attention", "other"]

_HEAD = 40
_aten = torch.ops.aten
_FLASH = _aten._scaled_dot_product_flash_attention
_FLASH_BACKWARD = _aten._scaled_dot_product_flash_attention_backward
# The processor's attention, also of the imagined device, is missing from torch's own list.
_LIKE = {
    _aten._scaled_dot_product_flash_attention_for_cpu: _FLASH,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _FLASH_BACKWARD,
}
_KINDS: Mapping[Any, Kind] = MappingProxyType(
    {
        _aten.convolution: "convolution",
        _aten._convolution: "convolution",
        _aten.convolution_backward: "convolution",
        **dict.fromkeys(_LIKE, "attention"),
        **dict.fromkeys(_LIKE.values(), "attention"),
    }
)


class Operation(NamedTuple):
    """What an operator does. flops: of arithmetic. moved: bytes of operands and results."""

    kind: Kind
    dtype: torch.dtype
    flops: int
    moved: int


@dataclass(frozen=True)
class Machine:
    """How fast a device is.

    flops: a second, by what is computed in which dtype. moved: bytes a second. called: seconds
    that calling an operator takes.
    """

    flops: Mapping[tuple[Kind, torch.dtype], float]
    moved: float
    called: float

    def seconds(self, work: "Work") -> float:
        """How long work takes, about."""
        return sum(self._seconds(one) * count for one, count in work.operations.items())

    def _seconds(self, one: Operation) -> float:
        rate = self.flops.get((one.kind, one.dtype)) or self.flops.get((one.kind, torch.float32))
        computing = one.flops / rate if rate else 0.0
        return max(computing, one.moved / self.moved, self.called)


class Work(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's modes have no types
    """Within, notes what operators do, on whichever device; views are free.

    operations: how often each was done.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # as above
        self.operations: Counter[Operation] = Counter()
        self._are_views: dict[Any, bool] = {}

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - an operator of torch
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        named = kwargs or {}
        made = func(*args, **named)
        is_view = self._are_views.get(func)
        if is_view is None:
            is_view = self._are_views[func] = _is_view(func)
        if not is_view:
            # Modes of functions would see every look at a shape in here.
            with torch._C.DisableTorchFunction():
                self.operations[_operation(func, args, named, made)] += 1
        return made


def _is_view(func: Any) -> bool:  # noqa: ANN401 - an operator of torch
    returned = [one.alias_info for one in func._schema.returns]
    return any(one is not None and not one.is_write for one in returned)


def _operation(func: Any, args: Any, named: Mapping[str, Any], made: Any) -> Operation:  # noqa: ANN401
    packet = func._overloadpacket
    tensors = [*_tensors(args), *_tensors(tuple(named.values()))]
    moved = sum(one.numel() * one.element_size() for one in (*tensors, *_tensors(made)))
    dtype = tensors[0].dtype if tensors else torch.float32
    count: Callable[..., int] | None = flop_registry.get(_LIKE.get(packet, packet))
    if count is None:
        return Operation("other", dtype, 0, moved)
    kind = _KINDS.get(packet, "product")
    flops = float(count(*args, **named, out_val=made))
    if kind == "attention":
        # Weighing a pair of tokens takes what a head of so much width does, however narrow it is.
        flops *= max(1, _HEAD / tensors[0].shape[-1])
    return Operation(kind, dtype, int(flops), moved)


def _tensors(values: Any) -> Iterator[Tensor]:  # noqa: ANN401 - any operand
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _tensors(value)


PATIENCE = 0.03
"""Seconds that each rate is measured for, or as long as one computation takes."""
_SIDE = 512
_CHANNELS, _PIXELS = 160, 32
_HEADS = 8
_NUMBERS = 1 << 24
_TINY = 16
_TEXT = 77  # tokens
_RATED: tuple[Kind, ...] = ("product", "convolution", "attention")


def probed(device: torch.device, dtype: torch.dtype) -> Machine:
    """How fast a device is now, measured in about a second. dtype: that of the UNet's products.

    First what operators reach alone, which is more than they reach in a network: by how much is
    measured with two of a UNet's blocks, forward and backward.
    """
    with torch.random.fork_rng(devices=[]):
        small = _Blocks(_TINY, _TINY // 4, device, dtype)
        large = _Blocks(_HEADS * _HEAD, _PIXELS, device, dtype)
    with torch.no_grad():
        flops = {
            (kind, one): _rate(_computations(kind, device, one), device)
            for one in {dtype, torch.float32}
            for kind in _RATED
        }
        numbers = torch.zeros(_NUMBERS, device=device)
        other = torch.zeros_like(numbers)
        bytes_moved = 3 * numbers.numel() * numbers.element_size()
        moved = bytes_moved / _duration(lambda: torch.add(numbers, other, out=numbers), device)
    with Work() as work:
        small.compute()
    called = _duration(small.compute, device) / work.operations.total()
    with Work() as work:
        large.compute()
    ideal = Machine(flops, moved, called)
    slower = max(1.0, _duration(large.compute, device) / ideal.seconds(work))
    return Machine({key: rate / slower for key, rate in flops.items()}, moved / slower, called)


class _Blocks:
    """A residual block and a transformer's, as UNets have them, for one picture."""

    def __init__(self, width: int, side: int, device: torch.device, dtype: torch.dtype) -> None:
        self._residual = ResnetBlock2D(
            in_channels=width, temb_channels=width, groups=_TINY // 2
        ).to(device, dtype)
        heads = width // _HEAD or 1
        self._transformer = BasicTransformerBlock(
            width, heads, width // heads, cross_attention_dim=width
        ).to(device, dtype)
        self._residual.requires_grad_(False)
        self._transformer.requires_grad_(False)
        self._image = torch.ones(1, width, side, side, device=device, dtype=dtype)
        self._image.requires_grad_()
        self._time = torch.ones(1, width, device=device, dtype=dtype)
        self._text = torch.ones(1, _TEXT, width, device=device, dtype=dtype)

    def compute(self) -> None:
        """Forward and backward."""
        image = self._residual(self._image, self._time)
        tokens = image.flatten(2).transpose(1, 2)
        made = self._transformer(tokens, encoder_hidden_states=self._text)
        torch.autograd.grad(made.sum(), self._image)


def _computations(kind: Kind, device: torch.device, dtype: torch.dtype) -> Callable[[], Tensor]:
    """Something of a kind, of the size that UNets have."""

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(shape, device=device, dtype=dtype)

    match kind:
        case "product":
            left, right = zeros(_SIDE, _SIDE), zeros(_SIDE, _SIDE)
            return lambda: left @ right
        case "convolution":
            kernel = zeros(_CHANNELS, _CHANNELS, 3, 3)
            image = zeros(1, _CHANNELS, _PIXELS, _PIXELS)
            return lambda: functional.conv2d(image, kernel, padding=1)
        case _:
            tokens = zeros(1, _HEADS, _PIXELS**2, _HEAD)
            return lambda: functional.scaled_dot_product_attention(tokens, tokens, tokens)


def _rate(compute: Callable[[], Tensor], device: torch.device) -> float:
    """Its arithmetic a second."""
    with Work() as work:
        compute()
    flops = sum(one.flops * count for one, count in work.operations.items())
    return float(flops / _duration(compute, device))


def _duration(compute: Callable[[], object], device: torch.device) -> float:
    """Seconds of the middle one of several computations, as busy as the device is now."""
    compute()
    taken, until = [], perf_counter() + PATIENCE
    while True:
        _wait(device)
        start = perf_counter()
        compute()
        _wait(device)
        end = perf_counter()
        taken.append(end - start)
        if end > until:
            return median(taken)


def _wait(device: torch.device) -> None:
    """Until the device has done what it was asked for: this measures, and nothing else waits."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
