"""Temperature and power of a GPU, as its driver reports them, read in a thread."""

import threading
from dataclasses import dataclass

import torch

from onetrainer.files.programs import find_program
from onetrainer.gpu_driver.nvidia import ask_nvidia


@dataclass(frozen=True)
class GpuHealth:
    """In °C and W; None for what the driver does not report."""

    temperature: float | None = None
    power_watts: float | None = None


def read_gpu_health(device: torch.device) -> GpuHealth | None:
    """Ask the driver of an NVIDIA GPU, which takes some tenths of a second; None without one."""
    if device.type != "cuda" or torch.version.hip or not find_program("nvidia-smi"):
        return None
    # By its id, since the driver counts GPUs that CUDA_VISIBLE_DEVICES hides.
    gpu = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
    lines = ask_nvidia("temperature.gpu", "power.draw", gpu=gpu)
    return parse_gpu_health(lines[0]) if lines else None


def parse_gpu_health(line: str) -> GpuHealth | None:
    """Return what a line says: "61, 214.32", or "61, [N/A]"; None if it is no such line."""
    parts = [part.strip() for part in line.strip().split(",")]
    return GpuHealth(*map(_number, parts)) if len(parts) == 2 else None


class GpuHealthReader:
    """Reads in a thread, so that no step waits; stops asking once there is nothing to read."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._thread: threading.Thread | None = None
        self._has_any = device.type == "cuda"
        self._newest = GpuHealth()

    def newest(self) -> GpuHealth:
        """Return what was read last, and begin to read again."""
        is_reading = self._thread is not None and self._thread.is_alive()
        if self._has_any and not is_reading:
            self._thread = threading.Thread(target=self._read, daemon=True)
            self._thread.start()
        return self._newest

    def _read(self) -> None:
        found = read_gpu_health(self._device)
        self._has_any = found is not None
        self._newest = found or GpuHealth()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
