"""The learning rate that an optimizer has now."""

from collections import Counter
from typing import Any

import torch
from torch import Tensor


def set_lr(optimizer: torch.optim.Optimizer, multiplier: float) -> None:
    """Set every group's learning rate to a multiple of its full one."""
    for group in optimizer.param_groups:
        lr = group["base_lr"] * multiplier
        # torchao keeps it as a tensor, so that a new rate needs no new compilation.
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


def keep_lr_in_memory(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Make every group's learning rate a tensor, which `set_lr` fills and recorded steps read.

    On a GPU a float32, as its kernels read it; on the CPU a float64, the same number as a float's.
    """
    dtype = torch.float64 if device.type == "cpu" else torch.float32
    for group in optimizer.param_groups:
        group["lr"] = torch.tensor(float(group["lr"]), dtype=dtype, device=device)
        group["capturable"] = device.type == "cuda"


def effective_lr(optimizer: torch.optim.Optimizer) -> float | Tensor:
    """Return the learning rate of the first group's coming step, a scalar."""
    return _effective(optimizer.param_groups[0])


def effective_lrs(optimizer: torch.optim.Optimizer) -> dict[str, float | Tensor]:
    """Return the same of every group, by component: "unet", "unet 2"; empty for a single group."""
    groups = optimizer.param_groups if len(optimizer.param_groups) > 1 else []
    found: dict[str, float | Tensor] = {}
    seen: Counter[str] = Counter()
    for group in groups:
        part = group.get("part", "weights")  # a person's own optimizer may lose it
        seen[part] += 1
        found[f"{part} {seen[part]}" if seen[part] > 1 else part] = _effective(group)
    return found


def _effective(group: dict[str, Any]) -> float | Tensor:
    """Return a group's rate.

    Optimizers that find the rate themselves multiply it by their estimate d (Mishchenko & Defazio
    2023, arXiv:2306.06101); some share one d among groups.
    """
    shared: float | Tensor | None = group.get("shared_d")
    estimate: float | Tensor = group.get("d", 1.0) if shared is None else shared
    rate: float | Tensor = group["lr"] * estimate
    # A copy, because the optimizer keeps writing to its own.
    return rate.detach().clone() if isinstance(rate, Tensor) else float(rate)
