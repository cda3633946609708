"""Metadata of adapter files, and folding of alpha into their matrices."""

import json
from collections.abc import Iterable, Sequence

import torch

from modules.formats.lora.lora_keys import AdapterTensors, rank_of, scale_of
from modules.formats.lora.lora_metadata import ALPHA as REPORTED_ALPHA
from modules.formats.lora.lora_metadata import ARGUMENTS, DIM
from modules.methods.adapters.layer_settings import AdapterPlan
from onetrainer.config.methods.adapters import Adapter, Dora, LoHa, LoKr, Lora, Oft
from onetrainer.config.run.model import Base, Prediction
from onetrainer.model_files.adapter_keys import ALPHA, DOWN

LARGE = (DOWN, "hada_w1_b", "lokr_w1", "lokr_w1_a")
"""Matrices with large initial values, which keep their precision in fp16 when scaled down."""


def with_alpha_folded(tensors: AdapterTensors) -> AdapterTensors:
    """Return tensors of the same change with alpha = rank, one matrix scaled by alpha / rank."""
    rank = rank_of(tensors)
    if rank is None:
        return tensors
    large = next(key for key in LARGE if key in tensors)
    return {**tensors, large: tensors[large] * scale_of(tensors), ALPHA: torch.tensor(float(rank))}


def adapter_metadata(
    section: Adapter,
    plans: Sequence[AdapterPlan],
    *,
    base: Base,
    prediction: Prediction,
    fold_alpha: bool,
) -> dict[str, str]:
    """Return the metadata by which other programs know a file. Source: kohya-ss/sd-scripts."""
    known = {
        "ss_network_module": "networks.lora" if isinstance(section, Lora) else "lycoris.kohya",
        "ss_base_model_version": _base_model_version(base, prediction),
        "ss_v2": str(base == "sd2"),
    }
    arguments = _arguments(section)
    if isinstance(section, Oft):
        known[DIM] = str(section.block_size)
    else:
        rank = _common(plan.rank for plan in plans)
        alpha = rank if fold_alpha else _common(plan.alpha for plan in plans)
        known |= {DIM: rank, REPORTED_ALPHA: alpha}
        # kohya's metadata keeps convolutions of more than one pixel apart.
        convolutions = (plan.module for plan in plans if isinstance(plan.module, torch.nn.Conv2d))
        if any(module.kernel_size != (1, 1) for module in convolutions):
            arguments |= {"conv_dim": rank, "conv_alpha": alpha}
    return known | ({ARGUMENTS: json.dumps(arguments)} if arguments else {})


def _arguments(section: Adapter) -> dict[str, str]:
    """Return the network arguments of sd-scripts' metadata, in LyCORIS' names."""
    match section:
        case Lora():
            return {}
        case Dora():
            return {"algo": "lora", "dora_wd": "True", "wd_on_output": "False"}
        case LoHa():
            return {"algo": "loha"}
        case LoKr():
            return {
                "algo": "lokr",
                "factor": str(section.factor),
                "decompose_both": str(section.decompose_both),
                "full_matrix": str(section.full_matrix),
            }
        case Oft():
            return {"algo": "diag-oft", "constraint": str(section.constraint)}


def _common(values: Iterable[float | None]) -> str:
    """Return the value all have in common; "Dynamic", as in sd-scripts, if they differ."""
    distinct = {str(value) for value in values}
    return distinct.pop() if len(distinct) == 1 else "Dynamic"


def _base_model_version(base: Base, prediction: Prediction) -> str:
    """Return kohya's name of the base; it has none for SDXL with v-prediction."""
    velocity = "_v" if prediction == "v_prediction" else ""
    match base:
        case "sd15":
            return f"sd_v1{velocity}"
        case "sd2":
            return f"sd_v2{velocity}"
        case "sdxl":
            return "sdxl_base_v1-0"
