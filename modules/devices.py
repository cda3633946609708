"""Prints the devices that torch sees here, as one line of JSON."""

import json
import os
import sys

import torch


def describe() -> list[str]:
    """Each graphics card with its memory, then the processor."""
    lines = []
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        card = torch.cuda.get_device_properties(index)
        precisions = "bf16, fp16" if torch.cuda.is_bf16_supported() else "fp16"
        lines.append(f"cuda:{index} {card.name}, {card.total_memory / 2**30:.1f} GiB, {precisions}")
    if not lines:
        built = torch.version.cuda or "none"
        lines.append(f"no CUDA device (torch was built for CUDA {built})")
    lines.append(f"cpu with {os.cpu_count()} cores, {torch.get_num_threads()} threads")
    return lines


if __name__ == "__main__":
    sys.stdout.write(json.dumps(describe()) + "\n")
