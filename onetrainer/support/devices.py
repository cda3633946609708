"""Findings about the GPU, its driver, and the torch that is to use them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onetrainer import IS_PACKAGE
from onetrainer.gpu_driver.nvidia import ask_nvidia
from onetrainer.support.findings import Finding, note, problem

_TORCH_SITE = "https://pytorch.org/get-started/locally"
_DRIVER_SITE = "https://www.nvidia.com/drivers"
_NVIDIA, _AMD, _DISPLAY_CLASS = "0x10de", "0x1002", "0x03"
_LITTLE_FREE = 0.7
_GIB = 2**30


def device_findings(torch: dict[str, Any], reason: str) -> Iterator[Finding]:
    """Yield findings about torch, the GPU and its driver.

    torch: What `python -m modules.devices` printed. reason: Why it printed nothing, or "".
    """
    driver = "; ".join(ask_nvidia("name", "driver_version"))
    if driver:
        yield Finding("driver", f"{driver} (nvidia-smi)")
    if reason:
        yield problem(
            "torch",
            f"cannot be loaded: {reason}",
            "Install it into a new virtual environment."
            if IS_PACKAGE
            else "Delete the folder .venv and run: python3 start-ui.py",
        )
        return
    built = "built for the CPU only"
    if torch["cuda"]:
        built = f"built for CUDA {torch['cuda']}"
    elif torch["rocm"]:
        built = f"built for AMD's ROCm {torch['rocm']}"
    elif torch["mps"]:
        built = "built for Apple's GPUs"
    yield Finding("torch", f"{torch['torch']}, {built}, {torch['cpu']}")
    for gpu in torch["gpus"]:
        yield _judge_gpu(gpu)
    if torch["warning"] and torch["gpus"]:
        yield note("gpu", torch["warning"], f"Install another torch: {_TORCH_SITE}")
    if torch["mps"]:
        yield note(
            "gpu",
            "an Apple GPU; training on it has not been tested yet, so it is not used by itself",
            "hardware.device=mps uses it; onetrainer doctor --device mps tries five steps.",
        )
    elif not torch["gpus"]:
        yield explain_missing_gpu(
            torch,
            driver,
            has_card=bool(driver) or _has_card(_NVIDIA),
            has_amd=_has_card(_AMD),
            visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        )


def _judge_gpu(gpu: dict[str, Any]) -> Finding:
    free, total = gpu["free"] / _GIB, gpu["total"] / _GIB
    formats = "bf16, fp16" if gpu["bf16"] else "fp16, no bf16 (hardware.precision: use fp16)"
    text = f"{gpu['name']}, {total:.1f} GB, {free:.1f} free, compute {gpu['compute']}, {formats}"
    area = f"gpu {gpu['index']}"
    if free < _LITTLE_FREE * total:
        return note(area, text, "Other programs use its memory. Close them before training.")
    return Finding(area, text)


def explain_missing_gpu(
    torch: dict[str, Any], driver: str, *, has_card: bool, has_amd: bool, visible: str | None
) -> Finding:
    """Return why torch uses no GPU, with the remedy.

    driver: What nvidia-smi says; "" without it. has_card: Whether there is an NVIDIA GPU. visible:
    CUDA_VISIBLE_DEVICES.
    """
    if torch["rocm"]:
        return problem(
            "gpu",
            f"torch for ROCm {torch['rocm']} finds no AMD GPU ({torch['warning'] or 'no reason'})",
            "Install AMD's driver; on Linux add your user to the groups render and video.",
        )
    if has_amd and not has_card:
        return note(
            "gpu",
            "there is an AMD GPU, but this torch is not built for it; training runs on the CPU",
            f"On Linux, install torch with ROCm into .venv: {_TORCH_SITE}",
        )
    if not has_card:
        return note(
            "gpu",
            "no NVIDIA or AMD GPU was found; training runs on the CPU",
            "This is some fifty times slower. GPUs of Intel are not supported.",
        )
    if not torch["cuda"]:
        return problem(
            "gpu",
            "there is an NVIDIA GPU, but this torch is built for the CPU only",
            f"Install torch with CUDA into .venv: {_TORCH_SITE}",
        )
    if visible is not None and visible.strip() in ("", "-1"):
        return problem(
            "gpu",
            f'CUDA_VISIBLE_DEVICES is "{visible}", which hides the GPU',
            "Remove this environment variable, or set it to 0.",
        )
    why = torch["warning"] or "torch gives no reason"
    if not driver:
        return problem(
            "gpu",
            f"there is an NVIDIA GPU, but its driver does not answer ({why})",
            f"Install NVIDIA's driver, restart the computer, and try nvidia-smi: {_DRIVER_SITE}",
        )
    if "too old" in why or "insufficient" in why:
        return problem(
            "gpu",
            f"the driver is too old for CUDA {torch['cuda']} ({why})",
            f"Update NVIDIA's driver and restart the computer: {_DRIVER_SITE}",
        )
    return problem(
        "gpu",
        f"torch cannot use the NVIDIA GPU ({why})",
        "Restart the computer; after an update of the driver this is needed.",
    )


def _has_card(maker: str) -> bool:
    """Return whether Linux lists a display device of a PCI vendor, with a driver or without."""
    for device in Path("/sys/bus/pci/devices").glob("*"):
        try:
            vendor, kind = ((device / name).read_text() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor.strip() == maker and kind.startswith(_DISPLAY_CLASS):
            return True
    return False
