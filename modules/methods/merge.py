"""Adding LoRA files to a model's own weights."""

from collections.abc import Sequence

import torch
from torch import nn

from modules.formats.lora.lora_file import LoraFile
from modules.formats.lora.lora_names import Layer
from modules.interfaces import Family
from modules.methods.adapters.weight_formulas import merged_bias, merged_weight
from modules.methods.layers.layer_presets import named_layers
from onetrainer.errors import UserError
from onetrainer.model_files import NAMES
from onetrainer.model_files.adapter_keys import is_of_adapter, is_of_text_encoder


def merge_loras(family: Family, loras: Sequence[tuple[LoraFile, float]]) -> list[str]:
    """Adds every layer's change to the family's weights; gives notes for people.

    loras: files, read with the names of this family's layers, each with its strength; 1 is as
    trained. Computed in float32, layer by layer, and cast to the weight's dtype once.
    Raises UserError for files that are for another kind of model; where shapes alone tell that,
    some layers have been changed already.
    """
    modules = dict(named_layers(family))
    notes: list[str] = []
    steps: dict[Layer, list[tuple[LoraFile, float]]] = {}
    for place, (file, strength) in enumerate(loras, start=1):
        name = f"LoRA {place}" if len(loras) > 1 else "the LoRA"
        notes += _unknown_notes(name, file, family)
        for layer in file.layers:
            steps.setdefault(layer, []).append((file, strength))
    with torch.no_grad():
        for layer, own in steps.items():
            _merge(layer, modules[layer], own)
    return notes


def _unknown_notes(name: str, file: LoraFile, family: Family) -> list[str]:
    """Raises UserError for layers that the family does not have, but tolerates text encoders'.

    sd-scripts 0.9.0 trained layers of text encoders that no other program knows (its issue 1964).
    """
    unknown = sorted(file.unknown)
    strange = [key for key in unknown if is_of_adapter(key) and not is_of_text_encoder(key)]
    if strange:
        raise UserError(
            f"{name}: {len(strange)} tensors for layers that this model does not have,"
            f" first {strange[0]}",
            f"A LoRA for {NAMES[family.name]} was expected",
            "Choose a LoRA that was trained on this kind of model",
        )
    if not unknown:
        return []
    return [
        f"{name}: {len(unknown)} tensors belong to no layer and are left out, first {unknown[0]}"
    ]


def _merge(layer: Layer, module: nn.Module, steps: Sequence[tuple[LoraFile, float]]) -> None:
    """Changes one layer by all files that have something for it."""
    parameters = dict(module.named_parameters(recurse=False))
    weight = parameters["weight"].float()
    bias = parameters["bias"].float() if "bias" in parameters else None
    for file, strength in steps:
        kinds = {kind: tensor.to(weight) for kind, tensor in file.layers[layer].items()}
        try:
            weight = merged_weight(weight, kinds, strength)
            if bias is not None:
                bias = merged_bias(bias, kinds, strength)
        except (ValueError, RuntimeError) as error:  # RuntimeError: torch's, of shapes
            raise _misfit(layer, tuple(weight.shape), error) from error
    parameters["weight"].copy_(weight)
    if bias is not None:
        parameters["bias"].copy_(bias)


def _misfit(layer: Layer, shape: tuple[int, ...], error: Exception) -> UserError:
    return UserError(
        f"{layer.component}.{layer.path}: the LoRA does not fit this layer ({error})",
        f"An adapter for a weight of shape {shape} was expected",
        "Choose a LoRA that was trained on this kind of model",
    )
