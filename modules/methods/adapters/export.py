"""What an adapter's file says: its tensors' scale, and the words by which programs know it."""

import json
from collections.abc import Iterable, Sequence

import torch

from modules.formats.lora.lora_keys import Kinds, rank_of, scale_of
from modules.formats.lora.lora_metadata import ALPHA as ALPHA_TOLD
from modules.formats.lora.lora_metadata import ARGUMENTS, DIM
from modules.methods.adapters.layer_settings import AdapterPlan
from onetrainer.config.methods.adapters import Adapter, Dora, LoHa, LoKr, Lora, Oft
from onetrainer.config.run.model import Base, Prediction
from onetrainer.model_files.adapter_keys import ALPHA, DOWN

LARGE = (DOWN, "hada_w1_b", "lokr_w1", "lokr_w1_a")
"""The matrices that begin large, which lose no digits in half precision when made smaller."""


def with_alpha_folded(kinds: Kinds) -> Kinds:
    """The same change with alpha = rank: one matrix is multiplied by alpha / rank."""
    rank = rank_of(kinds)
    if rank is None:
        return kinds
    large = next(kind for kind in LARGE if kind in kinds)
    return {**kinds, large: kinds[large] * scale_of(kinds), ALPHA: torch.tensor(float(rank))}


def adapter_metadata(
    section: Adapter,
    plans: Sequence[AdapterPlan],
    *,
    base: Base,
    prediction: Prediction,
    fold_alpha: bool,
) -> dict[str, str]:
    """The words by which other programs tell what a file is for. Source: kohya-ss/sd-scripts."""
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
        known |= {DIM: rank, ALPHA_TOLD: alpha}
        if any(_has_kernel(plan) for plan in plans):
            arguments |= {"conv_dim": rank, "conv_alpha": alpha}
    return known | ({ARGUMENTS: json.dumps(arguments)} if arguments else {})


def _arguments(section: Adapter) -> dict[str, str]:
    """More arguments of the network, as sd-scripts' metadata has them: LyCORIS' words."""
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
    """The value that all have; "Dynamic", sd-scripts' own word, where they differ."""
    found = {str(value) for value in values}
    return found.pop() if len(found) == 1 else "Dynamic"


def _has_kernel(plan: AdapterPlan) -> bool:
    """Whether a layer is a convolution over more than one pixel, which kohya's words tell apart."""
    return isinstance(plan.module, torch.nn.Conv2d) and plan.module.kernel_size != (1, 1)


def _base_model_version(base: Base, prediction: Prediction) -> str:
    """The word of kohya's programs, which have none for an SDXL of velocity."""
    velocity = "_v" if prediction == "v_prediction" else ""
    match base:
        case "sd15":
            return f"sd_v1{velocity}"
        case "sd2":
            return f"sd_v2{velocity}"
        case "sdxl":
            return "sdxl_base_v1-0"
