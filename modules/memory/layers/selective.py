"""Which operations a checkpoint keeps, so that only cheap ones are computed twice.

What matrix products, convolutions and attention give is kept; norms, activations, sums and casts
are repeated.
"""

from contextlib import AbstractContextManager

import torch
from torch import Tensor
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

CHEAP = 512
"""Products that add up fewer terms for each number are repeated, too.

They take about as long as a norm, which reads and writes each number: 2 * 512 operations for 4
bytes are what a card computes while it moves them (an RTX 4090 660, an H100 1200). Such are
adapters' way up from their rank, and the products of small matrices that LoHa, LoKr, DoRA and OFT
make, which are as large as the layer's own output, or as its weight: with them kept, more is saved
for the backward pass than without any checkpoint.
"""

_ATEN = torch.ops.aten
_FACTORS = {_ATEN.mm: 0, _ATEN.bmm: 0, _ATEN.addmm: 1, _ATEN.baddbmm: 1}
"""Matrix products, and which of their arguments has the terms that are added up as its rows."""
_ATTENTION = frozenset(
    {
        _ATEN._scaled_dot_product_flash_attention,
        _ATEN._scaled_dot_product_flash_attention_for_cpu,
        _ATEN._scaled_dot_product_efficient_attention,
        _ATEN._scaled_dot_product_cudnn_attention,
        _ATEN._scaled_dot_product_fused_attention_overrideable,
    }
)


def selective_contexts() -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    """The contexts of a checkpoint's forward and of its second one; new ones for each forward."""
    forward, again = create_selective_checkpoint_contexts(_policy)  # type: ignore[no-untyped-call] # torch's
    return forward, again


def _policy(
    _context: object, operation: torch._ops.OpOverload, *args: object, **_kwargs: object
) -> CheckpointPolicy:
    kind = operation.overloadpacket
    is_kept = kind in _ATTENTION or _terms(kind, args) >= CHEAP
    return CheckpointPolicy.MUST_SAVE if is_kept else CheckpointPolicy.PREFER_RECOMPUTE


def _terms(kind: torch._ops.OpOverloadPacket, args: tuple[object, ...]) -> int:
    """How many terms are added up for each number of a product; 0 of what is none."""
    if kind in _FACTORS:
        factor = args[_FACTORS[kind]]
        assert isinstance(factor, Tensor)
        return int(factor.shape[-1])
    if kind is _ATEN.convolution:
        weight = args[1]
        assert isinstance(weight, Tensor)
        return weight[0].numel()
    return 0
