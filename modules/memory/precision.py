"""On which device and in which number format the engine computes: the one place that decides."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch

from onetrainer.config.hardware import Precision
from onetrainer.errors import UserError


def choose_device(name: Literal["auto", "cuda", "cpu"]) -> torch.device:
    """The device; "auto" is the graphics card if torch can use one.

    Raises UserError where "cuda" is asked for and there is none.
    """
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError(
            "hardware.device: there is no graphics card that torch can use",
            "An NVIDIA card with a current driver, and torch with CUDA, were expected",
            'Set the device to "auto" or "cpu"',
        )
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def compute_dtype(precision: Precision) -> torch.dtype:
    """The dtype of a number format: of frozen weights, and of saved files."""
    match precision:
        case "fp32":
            return torch.float32
        case "bf16":
            return torch.bfloat16
        case "fp16":
            return torch.float16


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """The context that UNet and text encoder run in; a new one for every use.

    Frozen weights already have the precision's dtype, so it matters where trained float32
    weights meet them. Changes nothing for fp32.
    """
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, dtype=compute_dtype(precision))


def scaler(device: torch.device, precision: Precision) -> torch.amp.GradScaler:
    """Keeps float16 gradients from vanishing; does nothing in the other precisions."""
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")
