"""LoRA files in kohya's form, which every program reads.

For each layer `<name>.lora_down.weight` (rank, in, …), `<name>.lora_up.weight` (out, rank, …) and
`<name>.alpha`; the layer's weight changes by alpha / rank * up @ down.
Source: kohya-ss/sd-scripts, networks/lora.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from modules.formats.files import write_safetensors
from onetrainer.errors import UserError

DOWN, ALPHA = "lora_down.weight", "alpha"


@dataclass(frozen=True)
class LoraFile:
    """What a LoRA file holds: tensors by `<layer>.<kind>`, and words about it."""

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]


def write_lora(
    path: Path,
    weights: Mapping[str, Tensor],
    *,
    alpha: float,
    dtype: torch.dtype,
    metadata: Mapping[str, str],
) -> None:
    """Writes down and up matrices with one alpha for every layer, complete or not at all.

    weights: by `<layer>.lora_down.weight` and `<layer>.lora_up.weight`, in any dtype. alpha stays
    float32, since half precision would round it. Raises UserError for weights that dtype cannot
    hold.
    """
    tensors = {name: tensor.to(dtype) for name, tensor in weights.items()}
    too_large = [name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())]
    if too_large:
        raise UserError(
            f"{path.name}: {len(too_large)} tensors do not fit the number format {dtype}, first"
            f" {too_large[0]}",
            "Expected trained weights within its range",
            "Save as fp32 or bf16 (output.precision); a lower learning rate keeps weights small.",
        )
    for name in weights:
        layer, _, kind = name.partition(".")
        if kind == DOWN:
            tensors[f"{layer}.{ALPHA}"] = torch.tensor(alpha)
    write_safetensors(path, tensors, metadata)


def read_lora(path: Path) -> LoraFile:
    """Everything a LoRA file holds, on the CPU, as it was written."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 # no mapping
        return LoraFile(tensors, file.metadata() or {})
