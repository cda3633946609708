"""Networks without weights, whose initialization would cost time and memory."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

NetworkT = TypeVar("NetworkT", bound=nn.Module)


def build_empty(build: Callable[[], NetworkT]) -> NetworkT:
    """Build a network whose parameters are on the meta device.

    Its only buffers are numbers of positions, which files lack; these are real.
    """
    with torch.device("meta"):
        network = build()
    for module in network.modules():
        for name, buffer in module.named_buffers(recurse=False):
            assert name == "position_ids", f"{name} has values that are not known here"
            module.register_buffer(
                name, torch.arange(buffer.shape[-1]).expand(buffer.shape), persistent=False
            )
    return network
