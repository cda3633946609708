"""What the tensors of a LoRA's layer say about it: its rank and its scale."""

from collections.abc import Mapping

from torch import Tensor

from onetrainer.model_files.adapter_keys import ALPHA, DORA, DOWN, MID, UP

PLAIN = frozenset({DOWN, UP, MID, ALPHA, DORA})
"""What a LoRA with or without DoRA has; every other kind is another method's."""

Kinds = Mapping[str, Tensor]
"""A layer's tensors by what they are."""


def scale_of(kinds: Kinds) -> float:
    """Alpha / rank, by which a low-rank change is multiplied; 1 without an alpha."""
    rank = rank_of(kinds)
    if rank is None or ALPHA not in kinds:
        return 1.0
    return float(kinds[ALPHA]) / rank


def rank_of(kinds: Kinds) -> int | None:
    """The rank of a layer's adapter; None where nothing in it is of low rank."""
    for kind in (DOWN, "hada_w1_b", "lokr_w2_b", "lokr_w1_b", "a2.weight"):
        if kind in kinds:
            return len(kinds[kind])
    return None
