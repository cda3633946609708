"""Frozen linear layers in 8 or 4 bits: a half or a quarter of their memory, a little less exact.

The numbers are made by libraries: int8 and float8 by torchao, NF4 by bitsandbytes (Dettmers et al.
2023, arXiv:2305.14314). A layer computes with exactly the weight that `QuantizedLinear.weight`
gives; it is unpacked for each product, forward and backward, and kept in between by nobody.
torchao's own tensors would keep each unpacked weight for the backward pass, and bitsandbytes'
layers repack theirs on the processor; neither can be followed by what watches memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.nn import functional as F

Kind = Literal["int8", "fp8", "nf4"]
NF4_BLOCK = 64  # weights that share a scale, as in the paper


@dataclass(frozen=True)
class StoredWeight:
    """A layer's weight as it is stored, for what reads it again in the backward pass.

    read: the weight, (out, in, …), from the tensors.
    """

    tensors: tuple[Tensor, ...]
    read: Callable[..., Tensor]


class QuantizedLinear(nn.Linear):
    """A frozen linear layer whose weight is kept in few bits.

    packed: int8 or float8, (out, in); of NF4 two in a byte. scales: float32, what they are to be
    multiplied by: (out, 1), or of NF4 one for each 64 weights. dtype: what the weight was.
    """

    packed: nn.Parameter
    scales: nn.Parameter

    def __init__(self, layer: nn.Linear, kind: Kind, *, device: torch.device) -> None:
        """The layer's weight is quantized on the device, and the result is where the weight was."""
        nn.Module.__init__(self)  # nn.Linear would make a weight that nobody needs
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.kind, self.dtype = kind, layer.weight.dtype
        packed, scales = _pack(layer.weight.detach().to(device), kind)
        place = layer.weight.device
        self.packed = nn.Parameter(packed.to(place), requires_grad=False)
        self.scales = nn.Parameter(scales.to(place), requires_grad=False)
        self.register_parameter("bias", layer.bias)
        self.train(layer.training)

    @property
    def weight(self) -> Tensor:  # type: ignore[override] # of nn.Linear it is a parameter
        """The weight as it is computed with, (out, in), unpacked anew at each look."""
        with torch.no_grad():
            return self.stored.read(self.packed, self.scales)

    def forward(self, x: Tensor) -> Tensor:
        """x: (…, in). Returns (…, out), in x's dtype, or in that of autocast."""
        return self.product(x, self.bias)

    def product(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """The weight times x, (…, in), with a bias or without, as `forward` computes it."""
        dtype = _computed_in(x)
        bias = None if bias is None else bias.to(dtype)
        found: Tensor = _Product.apply(  # type: ignore[no-untyped-call] # torch's
            x.to(dtype), self.packed, self.scales, bias, self.kind, self._shape
        )
        return found

    @property
    def stored(self) -> StoredWeight:
        """The weight as it is stored; what is read of it is what `weight` gives."""
        read = partial(_unpack, kind=self.kind, shape=self._shape, dtype=self.dtype)
        return StoredWeight((self.packed, self.scales), read)

    @property
    def _shape(self) -> torch.Size:
        return torch.Size((self.out_features, self.in_features))


def quantize(
    module: nn.Module, kind: Kind, chosen: Callable[[str], bool], *, device: torch.device
) -> int:
    """Quantizes the frozen linear layers inside a module that are chosen by their paths.

    device: where that is computed; the layers stay where they are. To be done before adapters are
    put on them. Returns how many it were. Raises ValueError for a layer that trains.
    """
    linear = [path for path, own in module.named_modules() if type(own) is nn.Linear]
    taken = [path for path in linear if chosen(path)]
    for path in taken:
        layer = module.get_submodule(path)  # held one at a time, so that each makes room
        assert isinstance(layer, nn.Linear)
        if any(parameter.requires_grad for parameter in layer.parameters()):
            raise ValueError(f"{path} trains, and cannot be quantized")
        parent, _, name = path.rpartition(".")
        owner = module.get_submodule(parent)
        owner.register_module(name, QuantizedLinear(layer, kind, device=device))
    return len(taken)


def stored_weight(layer: nn.Module) -> StoredWeight:
    """The frozen weight of a linear layer or a convolution, whatever it is kept in."""
    if isinstance(layer, QuantizedLinear):
        return layer.stored
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    return StoredWeight((layer.weight,), _as_it_is)


def product_without_bias(layer: nn.Module, x: Tensor) -> Tensor:
    """What a linear layer or a convolution makes of x without its bias.

    Nothing is kept of a quantized weight for the backward pass.
    """
    if isinstance(layer, QuantizedLinear):
        return layer.product(x)
    if isinstance(layer, nn.Conv2d):
        return F.conv2d(
            x, layer.weight, None, layer.stride, layer.padding, layer.dilation, layer.groups
        )
    assert isinstance(layer, nn.Linear)
    return F.linear(x, layer.weight)


def _as_it_is(weight: Tensor) -> Tensor:
    return weight


def _computed_in(x: Tensor) -> torch.dtype:
    """The dtype in which torch's own linear layer computes with x."""
    device = x.device.type
    casts = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if casts else x.dtype


class _Product(torch.autograd.Function):
    """x W^T + b with a weight that is unpacked twice: for the forward and for the backward pass."""

    @staticmethod
    def forward(
        ctx: BackwardCFunction,
        x: Tensor,
        packed: Tensor,
        scales: Tensor,
        bias: Tensor | None,
        kind: Kind,
        shape: torch.Size,
    ) -> Tensor:
        ctx.save_for_backward(packed, scales)
        ctx.kind, ctx.shape = kind, shape  # type: ignore[attr-defined] # as torch wants it
        return F.linear(x, _unpack(packed, scales, kind, shape, x.dtype), bias)

    @staticmethod
    def backward(ctx: BackwardCFunction, gradient: Tensor) -> tuple[Tensor, *tuple[None, ...]]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors  # torch says that it is one alone
        packed, scales = saved
        weight = _unpack(packed, scales, ctx.kind, ctx.shape, gradient.dtype)  # type: ignore[attr-defined] # set above
        return gradient @ weight, None, None, None, None, None


def _pack(weight: Tensor, kind: Kind) -> tuple[Tensor, Tensor]:
    """A weight, (out, in), as numbers of few bits and their scales."""
    # Imported where they are needed: they are extras of this program, and take a second.
    match kind:
        case "int8":
            from torchao.quantization import (  # type: ignore[import-untyped] # it has no types
                Int8Tensor,
                PerRow,
            )

            whole = Int8Tensor.from_hp(weight, granularity=PerRow())
            return whole.qdata, whole.scale
        case "fp8":
            from torchao.quantization import Float8Tensor, PerRow

            small = Float8Tensor.from_hp(weight, granularity=PerRow())
            return small.qdata, small.scale
        case "nf4":
            from bitsandbytes.functional import quantize_4bit

            packed, state = quantize_4bit(weight, blocksize=NF4_BLOCK, quant_type="nf4")
            return packed, state.absmax


def _unpack(
    packed: Tensor, scales: Tensor, kind: Kind, shape: torch.Size, dtype: torch.dtype
) -> Tensor:
    """The weight that numbers and scales stand for, rounded to a dtype once."""
    match kind:
        case "int8" | "fp8":
            # Both are exact in any dtype; the product with a float32 scale is rounded at its end.
            return packed.to(dtype).mul_(scales)
        case "nf4":
            from bitsandbytes.functional import QuantState, dequantize_4bit

            state = QuantState(  # type: ignore[no-untyped-call] # it has no types
                scales, shape, blocksize=NF4_BLOCK, quant_type="nf4", dtype=dtype
            )
            weight: Tensor = dequantize_4bit(packed, state)
            return weight
