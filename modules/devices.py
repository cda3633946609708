"""What torch sees on this computer; `python -m modules.devices` prints it as a line of JSON."""

import json
import os
import sys
import warnings
from typing import Any

import torch

from onetrainer.messages.formatting import counted


def describe() -> dict[str, Any]:
    """Return torch's version, the CUDA or ROCm it was built for, GPUs, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        gpus = [_describe_gpu(index) for index in range(count)]
    texts = [" ".join(str(warning.message).split()) for warning in caught]
    threads = counted(torch.get_num_threads(), "thread")
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "",
        "rocm": torch.version.hip or "",
        "mps": torch.backends.mps.is_available(),
        "cpu": f"{counted(os.cpu_count() or 1, 'core')}, {threads}",
        "gpus": gpus,
        "warning": texts[0][:300] if texts else "",
    }


def device_name(device: torch.device) -> str:
    """Return what people call a device: "NVIDIA GeForce RTX 3060", "this processor"."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return "this processor" if device.type == "cpu" else "Apple's GPU"


def has_bf16(device: torch.device) -> bool:
    """Return whether a GPU computes in bf16 itself; NVIDIA's older ones emulate it."""
    if device.type == "mps":
        return torch.backends.mps.is_macos_or_newer(14, 0)
    with torch.cuda.device(device):
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def _describe_gpu(index: int) -> dict[str, Any]:
    gpu = torch.cuda.get_device_properties(index)
    free, total = torch.cuda.mem_get_info(index)
    return {
        "index": index,
        "name": gpu.name,
        "total": total,
        "free": free,
        "compute": f"{gpu.major}.{gpu.minor}",
        "bf16": has_bf16(torch.device("cuda", index)),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(describe()) + "\n")
