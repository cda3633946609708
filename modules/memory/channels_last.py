"""Convolutions whose weights lie in the order that a GPU's tensor cores compute in."""

import torch
from torch import nn


def use_channels_last(network: nn.Module) -> None:
    """Store a network's frozen convolutions with their channels last.

    What they compute then follows that order, too, without a change of its shape. Trained weights
    stay as they are: files and the optimizer read them.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d) and not module.weight.requires_grad:
            weight = module.weight
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
