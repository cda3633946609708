"""Devices and dtypes of all computation: the one module that chooses them.

Always float32 are losses, optimizer state and EMA of adapters and token embeddings, noise
schedules and latents, and the adapters and token embeddings themselves.
"""

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from modules.devices import has_bf16
from onetrainer.config.run.hardware import (
    AttentionKernel,
    Hardware,
    Precision,
    VaePrecision,
    device_names,
)
from onetrainer.errors import UserError


def storage_dtype(
    component: str,
    *,
    precision: Precision,
    vae_precision: VaePrecision = "auto",
    trained_as: torch.dtype | None = None,
) -> torch.dtype:
    """Return the dtype that a component is stored in.

    Frozen weights are stored in the dtype that they compute in, so that a step casts nothing.
    Trained ones are cast by autocast, except for a VAE's, which computes in its weights' dtype.

    Args:
        component: "unet", a text encoder's name, "vae" or "rewards".
        precision: The compute precision of the run.
        vae_precision: The precision of the VAE; "auto" is float32.
        trained_as: The dtype of the component's own weights if they train; None if frozen.
    """
    if trained_as is not None:
        return trained_as
    if component == "vae":
        # float32 by default: VAEs were trained in it, and some overflow in fp16.
        return torch.float32 if vae_precision == "auto" else compute_dtype(vae_precision)
    if component == "rewards" and precision == "fp16":
        return torch.float32  # small gradients of a reward would underflow
    return compute_dtype(precision)


def choose_device(name: str, process: int = 0) -> torch.device:
    """Return the device; "auto" is the GPU if torch can use one, except an Apple GPU.

    A numbered GPU becomes this thread's current one: that is where libraries' kernels run.

    Args:
        name: Of a device, or of several, of which each process uses its own.
        process: Number of this process among those of this computer.

    Raises:
        UserError: The name is a GPU's, and torch cannot use it.
    """
    if len(names := device_names(name)) > 1:
        name = names[process % len(names)]
    available = torch.backends.mps.is_available() if name == "mps" else torch.cuda.is_available()
    if process and available and name in ("auto", "cuda"):
        name = f"cuda:{process}"
    if name == "cpu" or (name == "auto" and not available):
        return torch.device("cpu")
    device = torch.device("cuda" if name == "auto" else name)
    if not available:
        expected = "a Mac with Apple's chip and macOS 14, and torch for it"
        if device.type == "cuda":
            expected = (
                "an NVIDIA GPU and torch with CUDA, or an AMD GPU and torch with ROCm, with a"
                " current driver"
            )
        raise UserError(
            "hardware.device: torch finds no usable GPU",
            f"Expected {expected}",
            'Set the device to "auto" or "cpu"',
            failure="driver",
        )
    if device.type == "cuda" and device.index is not None:
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        if device.index >= len(names):
            listed = ", ".join(f"cuda:{index} ({each})" for index, each in enumerate(names))
            raise UserError(
                f"hardware.device: torch finds no GPU {device.index}",
                f"Expected one of {listed}",
                "Choose one of them; CUDA_VISIBLE_DEVICES may hide others",
            )
        torch.cuda.set_device(device)
    return device


def usual_precision(device: torch.device) -> Precision:
    """Return the precision that suits a device where none is chosen."""
    if device.type != "cuda":
        return "fp32"
    return "bf16" if has_bf16(device) else "fp16"


def device_notes(hardware: Hardware, device: torch.device) -> Iterator[str]:
    """Yield what there is to know about training with these settings on this device.

    Raises:
        UserError: The device cannot compute in the precision.
    """
    precision = hardware.precision
    if device.type == "cpu":
        if precision != "fp32":
            yield (
                f"training in {precision} on the CPU, which has no hardware support for it; fp32"
                " (hardware.precision) is usually several times faster there"
            )
        if hardware.device == "auto" and torch.backends.mps.is_available():
            yield (
                "the Apple GPU is not used, as training on it has not been tested yet; the device"
                " mps (hardware.device) tries it"
            )
    elif precision == "bf16" and not has_bf16(device):
        if device.type == "mps":
            raise UserError(
                "hardware.precision: bf16 needs macOS 14 or later on Apple's GPUs",
                "Expected fp16 or fp32",
                "Choose fp16, or update macOS",
            )
        yield (
            f"{torch.cuda.get_device_name(device)} has no bf16 and emulates it, which is slow;"
            " choose fp16 (hardware.precision)"
        )


def free_cached_memory() -> None:
    """Return memory that torch keeps for later use to the GPU, after something did not fit."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()


def compute_dtype(precision: Precision) -> torch.dtype:
    """Return the dtype of a precision setting, for frozen weights and saved files."""
    match precision:
        case "fp32":
            return torch.float32
        case "bf16":
            return torch.bfloat16
        case "fp16":
            return torch.float16


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Return the autocast context that UNet and text encoders run in, new for each use.

    Frozen weights already have the compute dtype, so it matters where trained float32 weights
    meet them. Has no effect for fp32.
    """
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, dtype=compute_dtype(precision))


def is_autocasting(device: torch.device) -> bool:
    """Return whether operands on a device are cast by autocast now."""
    kind = device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def uncached_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Return the current autocast without its cache, for computing with the base model's weights.

    Autocast caches the casts of weights for its whole context: the training forward would use those
    of the base model's weights (it does with torch 2.13).
    """
    return torch.autocast(
        device.type,
        dtype=torch.get_autocast_dtype(device.type),
        enabled=torch.is_autocast_enabled(device.type),
        cache_enabled=False,
    )


def prefer_attention(kernel: AttentionKernel) -> AbstractContextManager[object]:
    """Return a context in which a GPU tries an attention kernel first, in the whole process.

    The others remain: no kernel computes every dtype and size, such as a VAE's in float32. None is
    preferred before it is measured.
    """
    if kernel in ("auto", "measured"):
        return nullcontext()
    kernels: dict[str, SDPBackend] = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
    }
    order = [kernels[kernel], *kernels.values(), SDPBackend.MATH]
    return sdpa_kernel(list(dict.fromkeys(order)), set_priority=True)


def apply_tf32(is_on: bool) -> None:
    """Allow or forbid GPUs to compute float32 products and convolutions in TF32.

    Holds for the whole process.
    """
    with warnings.catch_warnings():
        # torch has two interfaces to this. The older one, of which some versions warn, sets what
        # both report; if only the newer one was set, reading the older one raises, and torch's
        # own compiler reads it.
        warnings.simplefilter("ignore")
        torch.backends.cuda.matmul.allow_tf32 = is_on
        torch.backends.cudnn.allow_tf32 = is_on
