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
    """One layer's LoRA, computed with plain torch operations, with dropout on what goes in.

    LyCORIS chooses a kernel at every call. On a graphics card that compiles for seconds in the
    first steps, and may take another kernel after a resume, which gives other bits. It also drops
    adapter outputs; the paper and peft drop inputs.
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
        """Initial values, with which the adapter changes nothing."""
        nn.init.kaiming_uniform_(self.lora_down.weight, a=math.sqrt(5), generator=generator)
        nn.init.zeros_(self.lora_up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output with the adapter's change, in x's dtype."""
        return adapter_output(self, x, self._change)

    def tensors(self) -> dict[str, Tensor]:
        """What a file holds of it."""
        return _matrices(self)

    def _change(self, x: Tensor, output: Tensor) -> Tensor:
        return _passed_through(self, x, drop_ranks(self, self.lora_up.weight))


class DoraAdapter(LoConModule):  # type: ignore[misc] # LyCORIS has no types
    """One layer's DoRA: the changed weight (W + BA), with a trained length for each input.

    With s = trained length / length of W + BA, the layer computes (W + BA) s x = W x + W (s - 1) x
    + BA s x. No weight is rebuilt but for its lengths, and s - 1 keeps its digits in half
    precision, where weights that differ by a thousandth are equal. LyCORIS rounds its rebuilt
    weight, and knows no ordinary dropout here.
    Lengths are those of inputs, over outputs and kernel: ComfyUI misreads those of outputs. As in
    the paper's formula, gradients flow through the length; its section 4.3 offers to leave that
    out.
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
        self.dropout = nn.Dropout(dropouts.inputs)  # given to LyCORIS it would warn

    def initialize(self, generator: torch.Generator) -> None:
        """Initial values, with which the adapter changes nothing: lengths are the weight's own."""
        nn.init.kaiming_uniform_(self.lora_down.weight, a=math.sqrt(5), generator=generator)
        nn.init.zeros_(self.lora_up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output with the adapter's change, in x's dtype."""
        return adapter_output(self, x, self._change)

    def tensors(self) -> dict[str, Tensor]:
        """What a file holds of it."""
        return {**_matrices(self), DORA: self.dora_scale.detach()}

    def _change(self, x: Tensor, output: Tensor) -> Tensor:
        layer, up = self.org_module[0], drop_ranks(self, self.lora_up.weight)
        with torch.autocast(x.device.type, enabled=False):
            lengths = _lengths(stored_weight(layer), up * self.scale, self.lora_down.weight)
            # The same small number as where the file is merged: no length divides by zero.
            ratio = self.dora_scale.flatten() / (lengths + torch.finfo(lengths.dtype).eps)
            more = (ratio - 1).to(x.dtype)  # (in,)
        added = x * (more.view(-1, 1, 1) if self.isconv else more)
        lengthened = product_without_bias(layer, added)
        return lengthened + _passed_through(self, x + added, up)


def _lengths(weight: StoredWeight, up: Tensor, down: Tensor) -> Tensor:
    found: Tensor = _Lengths.apply(weight.read, up, down, *weight.tensors)  # type: ignore[no-untyped-call] # torch's
    return found


class _Lengths(torch.autograd.Function):
    """Lengths of W + BA for each input, (in,), float32, that keep no copy of the weight.

    read, weight: as a `StoredWeight` has them, (out, in, …), without gradient. up: (out, rank, …),
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
        lengths: Tensor = torch.linalg.vector_norm(_changed(read(*weight), up, down), dim=(0, 2))
        ctx.save_for_backward(up, down, lengths, *weight)
        ctx.read = read  # type: ignore[attr-defined] # as torch wants it
        return lengths

    @staticmethod
    def backward(
        ctx: BackwardCFunction, gradient: Tensor
    ) -> tuple[None, Tensor, Tensor, *tuple[None, ...]]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors  # torch says that it is one alone
        up, down, lengths, *weight = saved
        with torch.autocast(lengths.device.type, enabled=False):
            shares = gradient / lengths.clamp(min=torch.finfo(lengths.dtype).tiny)
            # A length's derivative is the unit vector in the weight's direction.
            changed = _changed(ctx.read(*weight), up, down)  # type: ignore[attr-defined] # set above
            change = (changed * shares[None, :, None]).flatten(1)
            up_gradient = (change @ down.flatten(1).T).view_as(up)
            down_gradient = (up.flatten(1).T @ change).view_as(down)
        return None, up_gradient, down_gradient, *(None for _ in weight)


def _changed(weight: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """W + BA as (out, in, kernel), float32."""
    product = up.flatten(1) @ down.flatten(1)
    return (weight.float().flatten(1) + product).view(*weight.shape[:2], -1)


def _passed_through(adapter: LoConModule, x: Tensor, up: Tensor) -> Tensor:
    """Alpha / rank * B(A(x)), in x's dtype, with dropout on x."""
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
