"""Weights that are something else for a while, and come back exactly."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def put_back(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Within, the weights may be overwritten; after, they are what they were, bit for bit.

    They are kept in main memory, where there is more room.
    """
    # `copy`, because without it a weight that is in main memory already would be its own copy.
    kept = [weight.detach().to("cpu", copy=True) for weight in parameters]
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, value in zip(parameters, kept, strict=True):
                weight.copy_(value)
