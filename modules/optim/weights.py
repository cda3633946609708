"""Replacement of weights' values: for a while, and from a checkpoint."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


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


def load_tensors(tensors: Mapping[str, Tensor], state: Mapping[str, Tensor], what: str) -> None:
    """Copy a state into tensors; raise ValueError unless names and shapes are equal.

    what: Name of the tensors, for the message.
    """
    if tensors.keys() != state.keys():
        raise ValueError(f"other {what}: {sorted(tensors.keys() ^ state.keys())[:4]}")
    for name, tensor in tensors.items():
        if tensor.shape != state[name].shape:
            raise ValueError(f"{name}: {state[name].shape} is not {tensor.shape}")
    for name, tensor in tensors.items():
        tensor.copy_(state[name])
