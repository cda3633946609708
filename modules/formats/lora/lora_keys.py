"""Rank and scale of an adapter from the tensors of its layer."""

from collections.abc import Mapping

from torch import Tensor

from onetrainer.model_files import adapter_layers
from onetrainer.model_files.adapter_keys import ALPHA, DORA, DOWN, MID, UP

PLAIN = frozenset({DOWN, UP, MID, ALPHA, DORA})
"""Keys of a LoRA with or without DoRA; all others belong to other methods."""

AdapterTensors = Mapping[str, Tensor]
"""A layer's tensors by the last part of their names, such as "lora_up.weight"."""


def scale_of(tensors: AdapterTensors) -> float:
    """Return alpha / rank, the factor of a low-rank change; 1 without an alpha."""
    rank = rank_of(tensors)
    if rank is None or ALPHA not in tensors:
        return 1.0
    return float(tensors[ALPHA]) / rank


def rank_of(tensors: AdapterTensors) -> int | None:
    """Return the rank of a layer's adapter; None if none of its tensors is of low rank."""
    return adapter_layers.rank_of({key: tensor.shape for key, tensor in tensors.items()})
