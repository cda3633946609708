"""Dropout of adapters, and adding their change to their layer's output.

Three dropouts, in training only. *Ordinary*: single inputs of an adapter become 0, the others are
scaled by 1 / (1 - p). *Rank*: whole ranks of an adapter are dropped in a forward, the others are
scaled by 1 / (1 - p), so the change is the same on average. *Module*: a whole adapter is dropped in
a forward; the others are not scaled. Randomness comes from torch's generators, which the trainer
seeds for each microbatch, and which gradient checkpointing restores: a recomputed block drops the
same. Source: kohya-ss/sd-scripts, networks/lora.py (which drops ranks for each image).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from lycoris.modules.base import LycorisBaseModule
from torch import Tensor

ComputeChange = Callable[[Tensor, Tensor], Tensor]
"""Computes what an adapter adds to its layer's output from the layer's input and output."""


@dataclass(frozen=True)
class Dropouts:
    """Probabilities, in [0, 1), of dropping an input, a rank, and a whole adapter."""

    inputs: float = 0.0
    ranks: float = 0.0
    module: float = 0.0


def adapter_output(adapter: LycorisBaseModule, x: Tensor, change: ComputeChange) -> Tensor:
    """Return the output of an adapter's layer for input x, with the adapter's change.

    Without it if the adapter is disabled (`multiplier` 0). A dropped adapter gets gradients of
    zero: a step that drops all of them would otherwise have nothing to differentiate.
    """
    output: Tensor = adapter.org_forward(x)
    if adapter.multiplier == 0:
        return output
    probability = adapter.module_dropout
    if adapter.training and probability > 0 and torch.rand(()).item() < probability:  # on the CPU
        zero = 0 * torch.stack([p.sum() for p in adapter.parameters()]).sum()
        return output + zero.to(output.dtype)
    return output + change(x, output)


def drop_ranks(adapter: LycorisBaseModule, matrix: Tensor) -> Tensor:
    """Drop ranks of a matrix with a column for each, (…, rank) or (out, rank, 1, 1)."""
    probability = adapter.rank_dropout
    if not adapter.training or probability == 0:
        return matrix
    ranks = matrix.shape[1]
    kept: Tensor = (torch.rand(ranks, device=matrix.device) >= probability).to(matrix.dtype)
    factors: Tensor = kept.view(1, ranks, *[1] * (matrix.ndim - 2)) / (1 - probability)
    return matrix * factors
