"""Metadata of adapter files, and folding of alpha into their matrices."""

import json
from collections.abc import Iterable, Sequence

import torch

from modules.formats.lora.lora_keys import AdapterTensors, rank_of, scale_of
from modules.formats.lora.lora_metadata import ALPHA as ALPHA_ENTRY
from modules.formats.lora.lora_metadata import ARGUMENTS
from modules.methods.adapters.kind import AdapterKind, AdapterPlan
from onetrainer.families.registry import family_spec
from onetrainer.families.spec import Prediction
from onetrainer.model_files.adapter_keys import ALPHA


def with_alpha_folded(kind: AdapterKind, tensors: AdapterTensors) -> AdapterTensors:
    """Return tensors of the same change with alpha = rank, one matrix scaled by alpha / rank."""
    rank = rank_of(tensors)
    if rank is None:
        return tensors
    large = next(key for key in kind.large if key in tensors)
    return {**tensors, large: tensors[large] * scale_of(tensors), ALPHA: torch.tensor(float(rank))}


def adapter_metadata(
    kind: AdapterKind,
    plans: Sequence[AdapterPlan],
    *,
    base: str,
    prediction: Prediction,
    fold_alpha: bool,
) -> dict[str, str]:
    """Return the metadata by which other programs know a file. Source: kohya-ss/sd-scripts."""
    rank = _common(plan.rank for plan in plans)
    alpha = rank if fold_alpha else _common(plan.alpha for plan in plans)
    dimensions, arguments = kind.dimensions(rank, alpha), kind.arguments()
    # kohya's metadata keeps convolutions of more than one pixel apart.
    convolutions = (plan.module for plan in plans if isinstance(plan.module, torch.nn.Conv2d))
    if ALPHA_ENTRY in dimensions and any(each.kernel_size != (1, 1) for each in convolutions):
        arguments |= {"conv_dim": rank, "conv_alpha": alpha}
    known = {
        "ss_network_module": kind.network_module,
        "ss_base_model_version": family_spec(base).kohya_versions.get(prediction, base),
        "ss_v2": str(family_spec(base).kohya_v2),
        **dimensions,
    }
    return known | ({ARGUMENTS: json.dumps(arguments)} if arguments else {})


def _common(values: Iterable[float | None]) -> str:
    """Return the value all have in common; "Dynamic", as in sd-scripts, if they differ."""
    distinct = {str(value) for value in values}
    return distinct.pop() if len(distinct) == 1 else "Dynamic"
