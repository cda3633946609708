"""LoRA and DoRA: a layer's change as the product of two small matrices.

Source: Hu et al. 2021, arXiv:2106.09685; for convolutions as in LyCORIS' LoCon; Liu et al. 2024,
arXiv:2402.09353 (DoRA).
"""

import math
from collections.abc import Callable

import torch
from lycoris.functional.locon import bypass_forward_diff
from lycoris.modules.locon import LoConModule
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from modules.memory.quantize import StoredWeight, product_without_bias, stored_weight
from modules.methods.adapters.dropout import Dropouts, adapter_output, drop_ranks
from onetrainer.model_files.adapter_keys import ALPHA, DORA, DOWN, UP


class LoraAdapter(LoConModule):  # type: ignore[misc] # LyCORIS has no types
    """One layer's LoRA in plain torch operations, with dropout of its inputs.

    LyCORIS chooses a kernel at every call. On a GPU that compiles for seconds in the first steps,
    and may choose another kernel after a resume, which gives other bits. It also drops adapter
    outputs; the paper and peft drop inputs.
    """

    def __init__(
        self, name: str, layer: nn.Module, *, rank: int, alpha: float, dropouts: Dropouts
    ) -> None:
        super().__init__(
            name,
            layer,
            lora_dim=rank,
            alpha=alpha,
            dropout=dropouts.inputs,
            rank_dropout=dropouts.ranks,
            module_dropout=dropouts.module,
            bypass_mode=True,
        )

    def initialize(self, generator: torch.Generator) -> None:
        """Set initial values with which the adapter has no effect."""
        nn.init.kaiming_uniform_(self.lora_down.weight, a=math.sqrt(5), generator=generator)
        nn.init.zeros_(self.lora_up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output with the adapter's change, in x's dtype."""
        return adapter_output(self, x, self._change)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the adapter's file."""
        return _matrices(self)

    def _change(self, x: Tensor, output: Tensor) -> Tensor:
        return _low_rank_product(self, x, drop_ranks(self, self.lora_up.weight))


class DoraAdapter(LoConModule):  # type: ignore[misc] # LyCORIS has no types
    """One layer's DoRA: the changed weight (W + BA) with a trained norm for each input.

    With s = trained norm / norm of W + BA, the layer computes (W + BA) s x = W x + W (s - 1) x + BA
    s x. No weight is rebuilt but for its norms, and s - 1 keeps its precision in half precision,
    where weights that differ by a thousandth are equal. LyCORIS rounds its rebuilt weight, and has
    no ordinary dropout here.
    Norms are those of inputs, over outputs and kernel: ComfyUI misreads those of outputs. As in the
    paper's formula, gradients flow through the norm; its section 4.3 offers to omit that.
    """

    def __init__(
        self, name: str, layer: nn.Module, *, rank: int, alpha: float, dropouts: Dropouts
    ) -> None:
        super().__init__(
            name,
            layer,
            lora_dim=rank,
            alpha=alpha,
            rank_dropout=dropouts.ranks,
            module_dropout=dropouts.module,
            weight_decompose=True,
            wd_on_out=False,
            bypass_mode=True,
        )
        self.dropout = nn.Dropout(dropouts.inputs)  # LyCORIS would warn of it

    def initialize(self, generator: torch.Generator) -> None:
        """Set initial values with which the adapter has no effect; norms are the weight's."""
        nn.init.kaiming_uniform_(self.lora_down.weight, a=math.sqrt(5), generator=generator)
        nn.init.zeros_(self.lora_up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output with the adapter's change, in x's dtype."""
        return adapter_output(self, x, self._change)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the adapter's file."""
        return {**_matrices(self), DORA: self.dora_scale.detach()}

    def _change(self, x: Tensor, output: Tensor) -> Tensor:
        layer, up = self.org_module[0], drop_ranks(self, self.lora_up.weight)
        with torch.autocast(x.device.type, enabled=False):
            norms = _input_norms(stored_weight(layer), up * self.scale, self.lora_down.weight)
            # The same epsilon as in a merged file, against division by zero.
            ratio = self.dora_scale.flatten() / (norms + torch.finfo(norms.dtype).eps)
            excess = (ratio - 1).to(x.dtype)  # (in,)
        added = x * (excess.view(-1, 1, 1) if self.isconv else excess)
        rescaled = product_without_bias(layer, added)
        return rescaled + _low_rank_product(self, x + added, up)


def _input_norms(weight: StoredWeight, up: Tensor, down: Tensor) -> Tensor:
    norms: Tensor = _InputNorms.apply(weight.read, up, down, *weight.tensors)  # type: ignore[no-untyped-call] # torch's
    return norms


class _InputNorms(torch.autograd.Function):
    """Norms of W + BA for each input, (in,), float32, without keeping a copy of the weight.

    read, weight: those of a `StoredWeight`, (out, in, …), without gradient. up: (out, rank, …),
    down: (rank, in, …), float32.
    """

    @staticmethod
    def forward(
        ctx: BackwardCFunction,
        read: Callable[..., Tensor],
        up: Tensor,
        down: Tensor,
        *weight: Tensor,
    ) -> Tensor:
        norms: Tensor = torch.linalg.vector_norm(_changed(read(*weight), up, down), dim=(0, 2))
        ctx.save_for_backward(up, down, norms, *weight)
        ctx.read = read  # type: ignore[attr-defined] # as torch wants it
        return norms

    @staticmethod
    def backward(
        ctx: BackwardCFunction, gradient: Tensor
    ) -> tuple[None, Tensor, Tensor, *tuple[None, ...]]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors  # torch's type is one tensor
        up, down, norms, *weight = saved
        with torch.autocast(norms.device.type, enabled=False):
            scaled = gradient / norms.clamp(min=torch.finfo(norms.dtype).tiny)
            # A norm's derivative is the unit vector in the weight's direction.
            changed = _changed(ctx.read(*weight), up, down)  # type: ignore[attr-defined] # set above
            change = (changed * scaled[None, :, None]).flatten(1)
            up_gradient = (change @ down.flatten(1).T).view_as(up)
            down_gradient = (up.flatten(1).T @ change).view_as(down)
        return None, up_gradient, down_gradient, *(None for _ in weight)


def _changed(weight: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Return W + BA as (out, in, kernel), float32."""
    product = up.flatten(1) @ down.flatten(1)
    return (weight.float().flatten(1) + product).view(*weight.shape[:2], -1)


def _low_rank_product(adapter: LoConModule, x: Tensor, up: Tensor) -> Tensor:
    """Return alpha / rank * B(A(x)), in x's dtype, with dropout on x."""
    down = adapter.lora_down
    geometry = {"stride": down.stride, "padding": down.padding} if adapter.isconv else {}
    added: Tensor = bypass_forward_diff(
        adapter.dropout(x),
        None,
        down.weight.to(x.dtype),
        up.to(x.dtype),
        None,
        gamma=adapter.scale,
        extra_args=geometry,
        backend="torch",
    )
    return added


def _matrices(adapter: LoConModule) -> dict[str, Tensor]:
    return {
        DOWN: adapter.lora_down.weight.detach(),
        UP: adapter.lora_up.weight.detach(),
        ALPHA: adapter.alpha.detach(),
    }
