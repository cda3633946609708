"""LoRA and DoRA: a layer's change as the product of two small matrices.

Source: Hu et al. 2021, arXiv:2106.09685; for convolutions as in LyCORIS' LoCon; Liu et al. 2024,
arXiv:2402.09353 (DoRA).
"""

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from modules.memory.precision import is_autocasting
from modules.memory.quantize import StoredWeight, product_without_bias, stored_weight
from modules.methods.adapters.kind import AdapterKind, AdapterPlan, LowRankModule
from modules.methods.adapters.lean_product import low_rank_linear
from modules.methods.adapters.lycoris_modules import LoConModule, bypass_forward_diff
from onetrainer.config.methods.low_rank import Dora, Lora
from onetrainer.model_files.adapter_keys import DOWN, UP


class LoraAdapter(LowRankModule, LoConModule):  # type: ignore[misc] # LyCORIS has no types
    """One layer's LoRA, with dropout of its inputs, as in the paper and peft."""

    reads_copies = True

    def __init__(
        self, name: str, plan: AdapterPlan, section: Lora | Dora, **options: object
    ) -> None:
        super().__init__(name, plan, section, **options)
        # Asked for in every forward, where a module's attributes are slow.
        self._is_linear = type(plan.module) is nn.Linear
        self._drops_inputs = bool(section.dropout or section.module_dropout)

    def initialize(self, generator: torch.Generator) -> None:
        nn.init.kaiming_uniform_(self.lora_down.weight, a=math.sqrt(5), generator=generator)
        nn.init.zeros_(self.lora_up.weight)

    def forward(self, x: Tensor) -> Tensor:
        layer = self.org_module[0]
        if not self._is_lean(x, layer):
            return super().forward(x)
        down = self.cast(DOWN, self.lora_down.weight, x.dtype)
        scale = self.scale * self.multiplier
        return low_rank_linear(x, layer.weight, layer.bias, down, self._up(x.dtype), scale)

    def change(self, x: Tensor, output: Tensor) -> Tensor:
        return self.product(x, self._up(x.dtype))

    def _is_lean(self, x: Tensor, layer: nn.Linear) -> bool:
        """Return whether layer and adapter can be computed as one, in x's dtype."""
        return (
            self._is_linear
            and self.multiplier != 0
            and not (self._drops_inputs and self.training)
            and layer.weight.dtype == x.dtype
            # Operands in half precision are those that autocast wants.
            and not (x.dtype == torch.float32 and is_autocasting(x.device))
        )

    def _up(self, dtype: torch.dtype) -> Tensor:
        return self.drop_ranks(self.cast(UP, self.lora_up.weight, dtype))

    def product(self, x: Tensor, up: Tensor) -> Tensor:
        """Return alpha / rank * B(A(x)), in x's dtype, with dropout on x."""
        down = self.lora_down
        geometry = {"stride": down.stride, "padding": down.padding} if self.isconv else {}
        added: Tensor = bypass_forward_diff(
            self.dropout(x),
            None,
            self.cast(DOWN, down.weight, x.dtype),
            up.to(x.dtype),
            None,
            gamma=self.scale,
            extra_args=geometry,
            backend="torch",
        )
        return added


class DoraAdapter(LoraAdapter):
    """One layer's DoRA: the changed weight (W + BA) with a trained norm for each input or output.

    With s = trained norm / norm of W + BA, the layer computes (W + BA) s x = W x + W (s - 1) x + BA
    s x; with norms of outputs s (W + BA) x = W x + (s - 1) W x + s BA x. No weight is rebuilt but
    for its norms, and s - 1 keeps its precision in half precision, where weights that differ by a
    thousandth are equal. LyCORIS rounds its rebuilt weight.
    Norms of inputs, over outputs and kernel, are what ComfyUI reads right; those of outputs are the
    paper's and peft's. As in the paper's formula, gradients flow through the norm; its section 4.3
    offers to omit that.
    """

    def __init__(self, name: str, plan: AdapterPlan, section: Dora) -> None:
        self._axis = 0 if section.norms == "outputs" else 1
        super().__init__(name, plan, section, weight_decompose=True, wd_on_out=not self._axis)

    def _is_lean(self, x: Tensor, layer: nn.Linear) -> bool:
        return False

    def change(self, x: Tensor, output: Tensor) -> Tensor:
        layer, up = self.org_module[0], self.drop_ranks(self.lora_up.weight)
        with torch.autocast(x.device.type, enabled=False):
            norms = _norms(
                stored_weight(layer), up * self.scale, self.lora_down.weight, axis=self._axis
            )
            # The same epsilon as in a merged file, against division by zero.
            ratio = self.dora_scale.flatten() / (norms + torch.finfo(norms.dtype).eps)
            excess = (ratio - 1).to(x.dtype)  # (in,) or (out,)
        excess = excess.view(-1, 1, 1) if self.isconv else excess
        if self._axis == 0:
            product = self.product(x, up)
            rescaled: Tensor = (self.without_bias(output) + product) * excess
            return product + rescaled
        added = x * excess
        return product_without_bias(layer, added) + self.product(x + added, up)


class LoraKind(AdapterKind):
    """LoRA, the product of two small matrices."""

    module: ClassVar[type[LoraAdapter]] = LoraAdapter
    name = "LoRA"
    network_module = "networks.lora"
    large = (DOWN,)
    zero_initialized = (UP,)
    section: Lora | Dora

    def lr_ratio(self, parameter: str) -> float:
        """Return LoRA+'s ratio for up matrices."""
        return self.section.plus_ratio if parameter.endswith(f".{UP}") else 1.0


class DoraKind(LoraKind):
    """DoRA, LoRA with trained norms of the changed weight."""

    module = DoraAdapter
    name = "DoRA"
    network_module = AdapterKind.network_module
    section: Dora

    sizes = "method.rank and method.norms"

    def arguments(self) -> dict[str, str]:
        is_of_outputs = self.section.norms == "outputs"
        return {"algo": "lora", "dora_wd": "True", "wd_on_output": str(is_of_outputs)}


def _norms(weight: StoredWeight, up: Tensor, down: Tensor, *, axis: int) -> Tensor:
    norms: Tensor = _Norms.apply(axis, weight.read, up, down, *weight.tensors)  # type: ignore[no-untyped-call] # torch's
    return norms


class _Norms(torch.autograd.Function):
    """Norms of W + BA for each output or input, float32, without keeping a copy of the weight.

    axis: 0 for outputs, (out,), 1 for inputs, (in,). read, weight: those of a `StoredWeight`,
    (out, in, …), without gradient. up: (out, rank, …), down: (rank, in, …), float32.
    """

    @staticmethod
    def forward(
        ctx: BackwardCFunction,
        axis: int,
        read: Callable[..., Tensor],
        up: Tensor,
        down: Tensor,
        *weight: Tensor,
    ) -> Tensor:
        norms: Tensor = torch.linalg.vector_norm(
            _changed(read(*weight), up, down), dim=(1 - axis, 2)
        )
        ctx.save_for_backward(up, down, norms, *weight)
        ctx.read, ctx.axis = read, axis  # type: ignore[attr-defined] # as torch wants it
        return norms

    @staticmethod
    def backward(
        ctx: BackwardCFunction, gradient: Tensor
    ) -> tuple[None, None, Tensor, Tensor, *tuple[None, ...]]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors  # torch's type is one tensor
        up, down, norms, *weight = saved
        with torch.autocast(norms.device.type, enabled=False):
            scaled = gradient / norms.clamp(min=torch.finfo(norms.dtype).tiny)
            # A norm's derivative is the unit vector in the weight's direction.
            changed = _changed(ctx.read(*weight), up, down)  # type: ignore[attr-defined] # set above
            shape = (-1, 1, 1) if ctx.axis == 0 else (1, -1, 1)  # type: ignore[attr-defined] # set above
            change = (changed * scaled.view(shape)).flatten(1)
            up_gradient = (change @ down.flatten(1).T).view_as(up)
            down_gradient = (up.flatten(1).T @ change).view_as(down)
        return None, None, up_gradient, down_gradient, *(None for _ in weight)


def _changed(weight: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Return W + BA as (out, in, kernel), float32."""
    product = up.flatten(1) @ down.flatten(1)
    return (weight.float().flatten(1) + product).view(*weight.shape[:2], -1)
