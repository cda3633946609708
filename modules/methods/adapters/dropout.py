"""What all kinds of adapters share: joining their layer, and being dropped.

Three dropouts, in training only. *Ordinary*: single inputs of an adapter become 0, the others
count 1 / (1 - share) as much. *Rank*: whole ranks of an adapter are left out of a forward, the
others count 1 / (1 - share) as much, so that the change is the same on average. *Module*: a whole
adapter is left out of a forward; the others count no more than ever.
Chances come from torch's generators, which the trainer seeds for each microbatch, and which
gradient checkpointing sets back: a block that is computed twice drops the same both times.
Source: kohya-ss/sd-scripts, networks/lora.py (which draws ranks for each picture).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from lycoris.modules.base import LycorisBaseModule
from torch import Tensor

ComputeChange = Callable[[Tensor, Tensor], Tensor]
"""What an adapter adds to its layer's output, from the layer's input and output."""


@dataclass(frozen=True)
class Dropouts:
    """The chances, in [0, 1), of an input, of a rank, and of a whole adapter to be left out."""

    inputs: float = 0.0
    ranks: float = 0.0
    module: float = 0.0


def adapter_output(adapter: LycorisBaseModule, x: Tensor, change: ComputeChange) -> Tensor:
    """The output of an adapter's layer for the input x, with what the adapter adds to it.

    The layer's own output if the adapter is switched off (`multiplier` 0). An adapter that is left
    out by chance gets gradients of zero: without any, a step that leaves all of them out would
    have nothing to differentiate.
    """
    output: Tensor = adapter.org_forward(x)
    if adapter.multiplier == 0:
        return output
    share = adapter.module_dropout
    if adapter.training and share > 0 and torch.rand(()).item() < share:  # on the CPU
        nothing = 0 * torch.stack([p.sum() for p in adapter.parameters()]).sum()
        return output + nothing.to(output.dtype)
    return output + change(x, output)


def drop_ranks(adapter: LycorisBaseModule, matrix: Tensor) -> Tensor:
    """A matrix with a column for each rank, (…, rank) or (out, rank, 1, 1), with some columns 0."""
    share = adapter.rank_dropout
    if not adapter.training or share == 0:
        return matrix
    ranks = matrix.shape[1]
    kept: Tensor = (torch.rand(ranks, device=matrix.device) >= share).to(matrix.dtype)
    factors: Tensor = kept.view(1, ranks, *[1] * (matrix.ndim - 2)) / (1 - share)
    return matrix * factors
