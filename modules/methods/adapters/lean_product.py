"""A linear layer and its LoRA as few operations, and all adapters' matrices cast as one.

Written out in torch's functions, a layer's LoRA takes a dozen operations forward and backward: two
casts, two products, a scaling and a sum, and the same of their gradients. As small as they are, a
GPU waits for each of them to be launched. Here sums and scalings are part of the products. In half
precision a function of our own adds the small term first, and takes two operations less backward;
in float32 torch differentiates the products itself, without Python, which a CPU would wait for.
"""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.autograd.function import BackwardCFunction, once_differentiable
from torch.nn import functional as F

from modules.memory.layers.selective import saves_outputs
from modules.memory.quantize import weight_dtype
from modules.methods.adapters.kind import AdapterModule


def low_rank_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, down: Tensor, up: Tensor, scale: float
) -> Tensor:
    """Return x W^T + bias + scale * (x down^T) up^T, (…, out); all operands have one dtype.

    Args:
        x: (…, in).
        weight: (out, in), without a gradient.
        bias: (out,), without a gradient.
        down: (rank, in).
        up: (out, rank).
        scale: alpha / rank, times the adapter's strength.
    """
    if x.dtype == torch.float32:
        rows = x.reshape(-1, x.shape[-1])
        inner = F.linear(rows, down)  # (rows, rank)
        added = torch.addmm(F.linear(rows, weight, bias), inner, up.t(), alpha=scale)
        return added.view(*x.shape[:-1], len(weight))
    output: Tensor = _LowRankLinear.apply(x, weight, bias, down, up, scale)  # type: ignore[no-untyped-call] # torch's
    return output


class _LowRankLinear(torch.autograd.Function):
    """As `low_rank_linear`; the layer's own weights get no gradient."""

    @staticmethod
    def forward(
        ctx: BackwardCFunction,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        down: Tensor,
        up: Tensor,
        scale: float,
    ) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        inner = F.linear(rows, down)  # (rows, rank)
        # The small term first: in half precision it is what is rounded before the sum.
        if scale == 1:
            output = F.linear(inner, up, bias)
        elif bias is None:
            output = _scaled_product(inner, up.t(), scale)
        else:
            output = torch.addmm(bias, inner, up.t(), alpha=scale)
        # The compiler can trace no context variable, and compiles no checkpointed block.
        if not torch.compiler.is_compiling() and saves_outputs():
            output = torch.addmm(output, rows, weight.t())
        else:
            output.addmm_(rows, weight.t())
        ctx.save_for_backward(rows, weight, inner, down, up)
        ctx.scale, ctx.shape = scale, x.shape  # type: ignore[attr-defined] # as torch documents it
        return output.view(*x.shape[:-1], len(weight))

    @staticmethod
    @once_differentiable
    def backward(
        ctx: BackwardCFunction, gradient: Tensor
    ) -> tuple[Tensor | None, None, None, Tensor | None, Tensor | None, None]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors  # torch's type is one tensor
        rows, weight, inner, down, up = saved
        scale: float = ctx.scale  # type: ignore[attr-defined] # set above
        x_gradient = down_gradient = up_gradient = None
        gradient = gradient.reshape(-1, gradient.shape[-1])
        through = _scaled_product(gradient, up, scale)  # (rows, rank)
        needs: tuple[bool, ...] = ctx.needs_input_grad  # torch's type is of one input
        if needs[3]:
            down_gradient = through.t().mm(rows)
        if needs[4]:
            up_gradient = _scaled_product(gradient.t(), inner, scale)
        if needs[0]:
            x_gradient = through.mm(down).addmm_(gradient, weight).view(ctx.shape)  # type: ignore[attr-defined] # set above
        return x_gradient, None, None, down_gradient, up_gradient, None


def _scaled_product(one: Tensor, other: Tensor, scale: float) -> Tensor:
    """Return scale * one @ other; on a GPU as one operation."""
    if scale == 1:
        return one.mm(other)
    # With beta 0 the first operand is neither read nor copied, whatever it holds.
    return torch.addmm(one[:1, :1], one, other, beta=0, alpha=scale)


class MatrixCopies:
    """Casts the matrices of all adapters to their layers' half precision, once per microbatch.

    Each adapter would otherwise cast its own at each use, and its gradients back. Of layers in
    float32 there is nothing to cast. Gradients reach the matrices as before, in float32.
    """

    def __init__(self, adapters: Iterable[AdapterModule]) -> None:
        """Note the matrices that are cast; those of the first adapter's dtype.

        adapters: Whose `reads_copies`.
        """
        found = [
            (adapter, name, matrix, weight_dtype(adapter.org_module[0]))
            for adapter in adapters
            if adapter.reads_copies
            for name, matrix in adapter.named_parameters()
        ]
        self._dtype = found[0][3] if found else torch.float32
        self._uses = [
            (adapter, name, matrix)
            for adapter, name, matrix, dtype in found
            if dtype == self._dtype and dtype.itemsize < matrix.element_size()
        ]

    def make(self) -> None:
        """Give each adapter copies of its matrices, until `drop`."""
        for is_trained in (True, False):
            uses = [use for use in self._uses if use[2].requires_grad == is_trained]
            if not uses:
                continue
            copies = _Casts.apply(self._dtype, *(matrix for _, _, matrix in uses))  # type: ignore[no-untyped-call] # torch's
            for (adapter, name, _), copy in zip(uses, copies, strict=True):
                adapter.copies[name] = copy

    def drop(self) -> None:
        """Take the copies away."""
        for adapter, _, _ in self._uses:
            adapter.copies.clear()


class _Casts(torch.autograd.Function):
    """Casts many tensors on one device, and their gradients back, in a few operations."""

    @staticmethod
    def forward(ctx: BackwardCFunction, dtype: torch.dtype, *exact: Tensor) -> tuple[Tensor, ...]:
        ctx.dtype = exact[0].dtype  # type: ignore[attr-defined] # as torch documents it
        ctx.set_materialize_grads(False)
        return _cast_all(exact, dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: BackwardCFunction, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        known = [gradient for gradient in gradients if gradient is not None]
        exact = iter(_cast_all(known, ctx.dtype) if known else ())  # type: ignore[attr-defined] # set above
        return None, *(None if gradient is None else next(exact) for gradient in gradients)


def _cast_all(tensors: Iterable[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    own = list(tensors)
    flat: Tensor = _flatten_dense_tensors(own)  # type: ignore[no-untyped-call] # torch's
    cast: tuple[Tensor, ...] = _unflatten_dense_tensors(flat.to(dtype), own)  # type: ignore[no-untyped-call] # torch's
    return cast
