"""Inference without gradients during training."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from modules.memory.eval_mode import eval_mode


@contextmanager
def inference_mode(networks: Collection[nn.Module]) -> Iterator[None]:
    """Switch networks to evaluation mode without gradients within the context.

    Afterwards autocast's cache is cleared: it would reuse casts of trained weights that were made
    without gradients.
    """
    with eval_mode(*networks):
        try:
            with torch.no_grad():
                yield
        finally:
            torch.clear_autocast_cache()
