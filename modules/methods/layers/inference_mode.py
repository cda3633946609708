"""Computing without gradients in the middle of training."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from modules.memory.eval_mode import eval_mode


@contextmanager
def inference_mode(networks: Collection[nn.Module]) -> Iterator[None]:
    """Meanwhile networks compute without gradients, in evaluation mode.

    Afterwards autocast forgets its casts of weights that train: it would keep those without
    gradients beside the others until its context ends.
    """
    with eval_mode(*networks):
        try:
            with torch.no_grad():
                yield
        finally:
            torch.clear_autocast_cache()
