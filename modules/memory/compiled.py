"""Blocks of a network compiled by torch, each as one graph."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

STATES = 8
"""Graphs for each block: training, sampling, other sizes and precisions."""


def compile_blocks(
    blocks: Sequence[nn.Module], backend: str | Callable[..., Any] = "inductor"
) -> None:
    """Compile each block's forward when it is first called, for each state and size it meets.

    A block that is no single graph is an error, rather than slow. Call it after adapters are
    attached, which become a part of the graphs. Loads torch's compiler, which takes seconds.
    """
    # Blocks of one class share the code that compilations are counted by.
    config, most = torch._dynamo.config, STATES * len(blocks)
    config.recompile_limit = max(config.recompile_limit, most)
    config.accumulated_recompile_limit = max(config.accumulated_recompile_limit, most)
    for block in blocks:
        block.forward = torch.compile(block.forward, fullgraph=True, dynamic=False, backend=backend)
