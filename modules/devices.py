"""Command that prints the compute devices as one line of JSON: `python -m modules.devices`."""

import json
import os
import sys

import torch


def describe() -> list[str]:
    """Return a line for each GPU, with its memory and number formats, then one for the CPU."""
    lines = []
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        gpu = torch.cuda.get_device_properties(index)
        precisions = "bf16, fp16" if torch.cuda.is_bf16_supported() else "fp16"
        lines.append(f"cuda:{index} {gpu.name}, {gpu.total_memory / 2**30:.1f} GiB, {precisions}")
    if not lines:
        cuda_version = torch.version.cuda or "none"
        lines.append(f"no CUDA device (torch was built for CUDA {cuda_version})")
    lines.append(f"cpu with {os.cpu_count()} cores, {torch.get_num_threads()} threads")
    return lines


if __name__ == "__main__":
    sys.stdout.write(json.dumps(describe()) + "\n")
