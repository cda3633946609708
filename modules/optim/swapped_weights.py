"""Temporary replacement of weights' values."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def restoring(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Allow overwriting the weights, and restore them bit for bit on exit.

    The copies are in host memory, where there is more room.
    """
    # `copy`, because otherwise a weight in host memory would be its own copy.
    copies = [weight.detach().to("cpu", copy=True) for weight in parameters]
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, value in zip(parameters, copies, strict=True):
                weight.copy_(value)
