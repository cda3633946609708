"""On which device and in which number format the engine computes: the one place that decides.

What stays float32 whatever is chosen: losses, optimizers' statistics and averages of adapters and
words, noise schedules and latents. Adapters and words themselves are float32, too.
"""

import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch

from onetrainer.config.run.hardware import Precision, VaePrecision
from onetrainer.errors import UserError


@dataclass(frozen=True)
class PartPrecision:
    """How a part is kept in memory, and what its products and convolutions are computed in."""

    storage: torch.dtype
    compute: torch.dtype


def precision_of(
    part: str,
    *,
    precision: Precision,
    vae_precision: VaePrecision = "auto",
    trained_as: torch.dtype | None = None,
) -> PartPrecision:
    """The number formats of a part: "unet", an encoder's name, "vae", "rewards" or "method".

    trained_as: the dtype of the part's own weights where they train; None where they are frozen.
    Frozen weights are kept in what they are computed in, so that nothing is cast in a step. Trained
    ones are cast by autocast, but for a VAE's, which always computes in the dtype of its weights.
    """
    compute = compute_dtype(precision)
    match part:
        case "vae":
            storage = trained_as or _vae_dtype(vae_precision)
            return PartPrecision(storage, storage)
        case "rewards":
            # Frozen networks; in fp16 a reward's gradient would be cut off by its small numbers.
            own = torch.float32 if precision == "fp16" else compute
            return PartPrecision(own, own)
        case "method":
            return PartPrecision(torch.float32, compute)
        case _:
            return PartPrecision(trained_as or compute, compute)


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


def apply_tf32(is_on: bool) -> None:
    """Lets graphics cards compute float32 products and convolutions in TF32, or forbids it.

    For the whole process, and no other device.
    """
    with warnings.catch_warnings():
        # torch has two interfaces to this. The older one, of which some of its versions warn, sets
        # what both of them tell; after the newer one alone a look at the older one raises, and
        # torch's own compiler looks there.
        warnings.simplefilter("ignore")
        torch.backends.cuda.matmul.allow_tf32 = is_on
        torch.backends.cudnn.allow_tf32 = is_on


def _vae_dtype(precision: VaePrecision) -> torch.dtype:
    """float32 unless something else is asked for: VAEs were trained in it, and SDXL's overflows."""
    return torch.float32 if precision == "auto" else compute_dtype(precision)
