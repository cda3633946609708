"""Whether a GPU computes the same bits each time, or may choose the fastest algorithms.

The processor always computes the same bits.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.backends import cudnn
from torch.utils import deterministic as torch_deterministic

from onetrainer.config.run.hardware import Deterministic

_WORKSPACE, _REPEATABLE = "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
"""Source: NVIDIA, cuBLAS documentation, "Results reproducibility"."""


@contextmanager
def determinism(setting: Deterministic, device: torch.device) -> Iterator[None]:
    """Choose a GPU's algorithms in the whole process; call before its first matrix product.

    cuBLAS reads its variable when that begins, in each process of a run.
    """
    if device.type != "cuda" or setting == "auto":
        yield
        return
    is_on = setting == "on"
    before = torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark
    fills = torch_deterministic.fill_uninitialized_memory  # type: ignore[attr-defined] # made late
    if is_on:
        os.environ.setdefault(_WORKSPACE, _REPEATABLE)
    try:
        # Not merely with warnings: only then FlashAttention adds its gradients in a fixed order,
        # and cuDNN's attention, which has no such order, is left out.
        _apply(is_on, is_on, not is_on)
        # Nothing here reads memory before it is written.
        torch_deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined] # made late
        yield
    finally:
        _apply(*before)
        torch_deterministic.fill_uninitialized_memory = fills  # type: ignore[attr-defined] # made late


def _apply(uses_deterministic: bool, cudnn_deterministic: bool, cudnn_benchmark: bool) -> None:
    torch.use_deterministic_algorithms(uses_deterministic)
    cudnn.deterministic, cudnn.benchmark = cudnn_deterministic, cudnn_benchmark
