"""Selective checkpointing: which operations' outputs are saved, and which are recomputed.

The outputs of matrix products, convolutions and attention are saved; norms, activations, sums and
casts are recomputed.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

CHEAP = 512
"""Products that sum fewer terms per number are recomputed, too.

They take about as long as a norm, which reads and writes each number: 2 * 512 operations for 4
bytes are what a GPU computes while it transfers them (an RTX 4090 660, an H100 1200). Among them
are the up projections of adapters, and the products of small matrices in LoHa, LoKr, DoRA and OFT,
which are as large as the layer's output, or as its weight: saving them would take more memory than
no checkpoint at all.
"""

_ATEN = torch.ops.aten
_FACTORS = {_ATEN.mm: 0, _ATEN.bmm: 0, _ATEN.addmm: 1, _ATEN.baddbmm: 1}
"""Matrix products, and which of their arguments has the summed terms as its rows."""
_ATTENTION = frozenset(
    {
        _ATEN._scaled_dot_product_flash_attention,
        _ATEN._scaled_dot_product_flash_attention_for_cpu,
        _ATEN._scaled_dot_product_efficient_attention,
        _ATEN._scaled_dot_product_cudnn_attention,
        _ATEN._scaled_dot_product_fused_attention_overrideable,
    }
)


_IS_SAVING = ContextVar("whether outputs of products are saved", default=False)


def saves_outputs() -> bool:
    """Return whether a selective checkpoint saves outputs now, which must not change then."""
    return _IS_SAVING.get()


def selective_contexts() -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
    """Return the contexts of a checkpoint's forward and recomputation, new for each forward."""
    forward, recomputation = create_selective_checkpoint_contexts(_policy)  # type: ignore[no-untyped-call] # torch's
    return _saving(forward), _saving(recomputation)


@contextmanager
def _saving(context: AbstractContextManager[object]) -> Iterator[None]:
    token = _IS_SAVING.set(True)
    try:
        with context:
            yield
    finally:
        _IS_SAVING.reset(token)


def _policy(
    _context: object, operation: torch._ops.OpOverload, *args: object, **_kwargs: object
) -> CheckpointPolicy:
    packet = operation.overloadpacket
    is_saved = packet in _ATTENTION or _terms(packet, args) >= CHEAP
    return CheckpointPolicy.MUST_SAVE if is_saved else CheckpointPolicy.PREFER_RECOMPUTE


def _terms(packet: torch._ops.OpOverloadPacket, args: tuple[object, ...]) -> int:
    """Return how many terms are summed per number of a product; 0 for other operations."""
    if packet in _FACTORS:
        factor = args[_FACTORS[packet]]
        assert isinstance(factor, Tensor)
        return int(factor.shape[-1])
    if packet is _ATEN.convolution:
        weight = args[1]
        assert isinstance(weight, Tensor)
        return weight[0].numel()
    return 0
