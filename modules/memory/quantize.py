"""Quantization of frozen linear layers to 8 or 4 bits, a half or a quarter of their memory.

Libraries do the quantization: int8 and float8 by torchao, NF4 by bitsandbytes (Dettmers et al.
2023, arXiv:2305.14314). A layer computes with exactly the weight that `QuantizedLinear.weight`
returns; it is unpacked for each product, forward and backward, and never kept in between.
torchao's own tensors would save each unpacked weight for the backward pass, and bitsandbytes'
layers repack theirs on the CPU; neither can be followed by what measures memory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.nn import functional as F

from modules.memory.precision import is_autocasting

Kind = Literal["int8", "fp8", "nf4"]
NF4_BLOCK = 64  # weights that share a scale, as in the paper


@dataclass(frozen=True)
class StoredWeight:
    """A layer's weight as it is stored, which the backward pass unpacks again.

    read: returns the weight, (out, in, …), from the tensors.
    """

    tensors: tuple[Tensor, ...]
    read: Callable[..., Tensor]


class QuantizedLinear(nn.Linear):
    """A frozen linear layer with a quantized weight.

    packed: int8 or float8, (out, in); for NF4 two numbers per byte. scales: float32 factors,
    (out, 1), or for NF4 one per 64 weights. dtype: that of the weight before.
    """

    packed: nn.Parameter
    scales: nn.Parameter

    def __init__(self, layer: nn.Linear, kind: Kind, *, device: torch.device) -> None:
        """Quantize the layer's weight on `device`, and store it on the weight's own device."""
        nn.Module.__init__(self)  # nn.Linear would allocate a weight
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.kind, self.dtype = kind, layer.weight.dtype
        packed, scales = _pack(layer.weight.detach().to(device), kind)
        storage_device = layer.weight.device
        self.packed = nn.Parameter(packed.to(storage_device), requires_grad=False)
        self.scales = nn.Parameter(scales.to(storage_device), requires_grad=False)
        self.register_parameter("bias", layer.bias)
        self.train(layer.training)

    @property
    def weight(self) -> Tensor:  # type: ignore[override] # a parameter in nn.Linear
        """The weight that the layer computes with, (out, in), unpacked at each access."""
        with torch.no_grad():
            return self.stored.read(self.packed, self.scales)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the layer's output, (…, out), from x, (…, in); in x's or autocast's dtype."""
        return self.product(x, self.bias)

    def product(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Multiply x, (…, in), by the weight as `forward` does, and add a bias if there is one."""
        # As torch's own linear layer chooses its dtype.
        casts = is_autocasting(x.device)
        dtype = torch.get_autocast_dtype(x.device.type) if casts else x.dtype
        bias = None if bias is None else bias.to(dtype)
        output: Tensor = _Product.apply(  # type: ignore[no-untyped-call] # torch's
            x.to(dtype), self.packed, self.scales, bias, self.kind, self._shape
        )
        return output

    @property
    def stored(self) -> StoredWeight:
        """The weight as it is stored; reading it returns what `weight` does."""
        read = partial(_unpack, kind=self.kind, shape=self._shape, dtype=self.dtype)
        return StoredWeight((self.packed, self.scales), read)

    @property
    def _shape(self) -> torch.Size:
        return torch.Size((self.out_features, self.in_features))


def quantize(
    module: nn.Module, kind: Kind, is_selected: Callable[[str], bool], *, device: torch.device
) -> int:
    """Quantize the selected frozen linear layers inside a module, and return their number.

    Must precede the attachment of adapters.

    Args:
        module: Its layers are replaced; they stay on their devices.
        kind: The quantized format.
        is_selected: Whether the layer at a path is quantized.
        device: The device that computes the quantization.

    Raises:
        ValueError: A selected layer is trainable.
    """
    linear = [path for path, layer in module.named_modules() if type(layer) is nn.Linear]
    paths = [path for path in linear if is_selected(path)]
    for path in paths:
        layer = module.get_submodule(path)  # referenced one at a time, so that each frees memory
        assert isinstance(layer, nn.Linear)
        if any(parameter.requires_grad for parameter in layer.parameters()):
            raise ValueError(f"{path} is trainable and cannot be quantized")
        parent, _, name = path.rpartition(".")
        owner = module.get_submodule(parent)
        owner.register_module(name, QuantizedLinear(layer, kind, device=device))
    return len(paths)


def stored_weight(layer: nn.Module) -> StoredWeight:
    """Return the frozen weight of a linear layer or a convolution, quantized or not."""
    if isinstance(layer, QuantizedLinear):
        return layer.stored
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    return StoredWeight((layer.weight,), lambda weight: weight)


def weight_dtype(layer: nn.Module) -> torch.dtype:
    """Return the dtype of a layer's weight, of a quantized one before it was."""
    if isinstance(layer, QuantizedLinear):
        return layer.dtype
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    return layer.weight.dtype


def product_without_bias(layer: nn.Module, x: Tensor) -> Tensor:
    """Compute a linear layer's or a convolution's output for x without its bias.

    The unpacked form of a quantized weight is not saved for the backward pass.
    """
    if isinstance(layer, QuantizedLinear):
        return layer.product(x)
    if isinstance(layer, nn.Conv2d):
        return F.conv2d(
            x, layer.weight, None, layer.stride, layer.padding, layer.dilation, layer.groups
        )
    assert isinstance(layer, nn.Linear)
    return F.linear(x, layer.weight)


class _Product(torch.autograd.Function):
    """x W^T + b with a weight that is unpacked for the forward and again for the backward pass."""

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
        ctx.kind, ctx.shape = kind, shape  # type: ignore[attr-defined] # as torch documents it
        return F.linear(x, _unpack(packed, scales, kind, shape, x.dtype), bias)

    @staticmethod
    def backward(ctx: BackwardCFunction, gradient: Tensor) -> tuple[Tensor, *tuple[None, ...]]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors  # torch's type says one tensor
        packed, scales = saved
        weight = _unpack(packed, scales, ctx.kind, ctx.shape, gradient.dtype)  # type: ignore[attr-defined] # set above
        return gradient @ weight, None, None, None, None, None


def _pack(weight: Tensor, kind: Kind) -> tuple[Tensor, Tensor]:
    """Return a weight, (out, in), as packed numbers and their scales."""
    # Imported here: they are optional packages, and take a second.
    match kind:
        case "int8":
            from torchao.quantization import (  # type: ignore[import-untyped] # it has no types
                Int8Tensor,
                PerRow,
            )

            int8 = Int8Tensor.from_hp(weight, granularity=PerRow())
            return int8.qdata, int8.scale
        case "fp8":
            from torchao.quantization import Float8Tensor, PerRow

            float8 = Float8Tensor.from_hp(weight, granularity=PerRow())
            return float8.qdata, float8.scale
        case "nf4":
            from bitsandbytes.functional import quantize_4bit

            packed, state = quantize_4bit(weight, blocksize=NF4_BLOCK, quant_type="nf4")
            return packed, state.absmax


def _unpack(
    packed: Tensor, scales: Tensor, kind: Kind, shape: torch.Size, dtype: torch.dtype
) -> Tensor:
    """Return the weight of packed numbers and scales, rounded once to a dtype."""
    match kind:
        case "int8" | "fp8":
            # Both are exact in any dtype; the product with a float32 scale is rounded once.
            return packed.to(dtype).mul_(scales)
        case "nf4":
            from bitsandbytes.functional import QuantState, dequantize_4bit

            state = QuantState(  # type: ignore[no-untyped-call] # it has no types
                scales, shape, blocksize=NF4_BLOCK, quant_type="nf4", dtype=dtype
            )
            weight: Tensor = dequantize_4bit(packed, state)
            return weight
