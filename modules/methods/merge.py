"""Merging of LoRA files into a model's weights."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from modules.formats.lora.lora_file import LoraFile
from modules.formats.lora.lora_names import Layer
from modules.interfaces import Family
from modules.methods.adapters.energy import BIASES, layers_of, share_left_out
from modules.methods.adapters.weight_formulas import merged_bias, merged_weight
from modules.methods.layers.layer_presets import named_layers
from onetrainer.errors import UserError
from onetrainer.model_files.adapter_keys import is_adapter_key, is_text_encoder_key
from onetrainer.model_files.kinds import NAMES


def merge_loras(family: Family, loras: Sequence[tuple[LoraFile, float]]) -> list[str]:
    """Merge LoRAs into the family's weights and return notes for people.

    Computed in float32, layer by layer, and cast to the weight's dtype once.

    Args:
        family: Its weights are changed in place.
        loras: Files read with the names of this family's layers, each with its strength; 1 is as
            trained.

    Raises:
        UserError: For files of another model family; if only shapes reveal it, some layers have
            been changed already.
    """
    modules = dict(named_layers(family))
    notes: list[str] = []
    adapters_by_layer: dict[Layer, list[tuple[LoraFile, float]]] = {}
    for place, (file, strength) in enumerate(loras, start=1):
        name = f"LoRA {place}" if len(loras) > 1 else "the LoRA"
        notes += unknown_notes(name, file, family.name)
        notes += bias_notes(name, file, lambda layer: modules[layer].bias is not None)
        for layer in file.layers:
            adapters_by_layer.setdefault(layer, []).append((file, strength))
    with torch.no_grad():
        for layer, adapters in adapters_by_layer.items():
            _merge(layer, modules[layer], adapters)
    return notes


class MergedLoras:
    """LoRAs merged into a family's weights, until others replace them.

    The original weights of the layers that they change are kept in RAM: whatever is merged next
    gives the numbers of a newly loaded model.
    """

    def __init__(self, family: Family) -> None:
        self._family = family
        self._modules = dict(named_layers(family))
        self._originals: dict[Layer, dict[str, Tensor]] = {}
        self._changed: set[Layer] = set()

    def replace(self, loras: Sequence[tuple[LoraFile, float]]) -> list[str]:
        """Merge LoRAs in place of those before; see `merge_loras`."""
        with torch.no_grad():
            for layer in self._changed:
                for name, original in self._originals[layer].items():
                    self._modules[layer].get_parameter(name).copy_(original)
            self._changed = {layer for file, _ in loras for layer in file.layers}
            for layer in self._changed - self._originals.keys():
                parameters = self._modules[layer].named_parameters(recurse=False)
                self._originals[layer] = {
                    name: parameter.detach().to("cpu", copy=True) for name, parameter in parameters
                }
        return merge_loras(self._family, loras)


def unknown_notes(name: str, file: LoraFile, family: str) -> list[str]:
    """Raise UserError for layers that the family lacks, except those of text encoders.

    name: Of the file. family: Of the model.
    sd-scripts 0.9.0 trained layers of text encoders that no other program knows (its issue 1964).
    """
    unknown = sorted(file.unknown)
    strange = [key for key in unknown if is_adapter_key(key) and not is_text_encoder_key(key)]
    if strange:
        raise UserError(
            f"{name}: {len(strange)} tensors are for layers that this model does not have,"
            f" first {strange[0]}",
            f"Expected a LoRA for {NAMES[family]}",
            "Choose a LoRA that was trained on this model family",
        )
    if not unknown:
        return []
    share = share_left_out(file, layers_of(file.unknown).values())
    return [
        f"{name}: {len(unknown)} tensors match no layer and are ignored (such as {unknown[0]}):"
        f" {share}"
    ]


def bias_notes(name: str, file: LoraFile, has_bias: Callable[[Layer], bool]) -> list[str]:
    """Return a note on changes of biases that layers do not have; none if there are none.

    name: Of the file.
    """
    lost = [
        {kind: tensors[kind] for kind in BIASES if kind in tensors}
        for layer, tensors in file.layers.items()
        if not tensors.keys().isdisjoint(BIASES) and not has_bias(layer)
    ]
    if not lost:
        return []
    return [
        f"{name}: changes of biases of {len(lost)} layers, which have none in this model, are"
        f" ignored: {share_left_out(file, lost)}"
    ]


def merged_layer(
    layer: Layer, weight: Tensor, adapters: Sequence[tuple[LoraFile, float]]
) -> Tensor:
    """Return a layer's weight, in its dtype, with all files' adapters of the layer merged into it.

    Raises:
        UserError: If an adapter does not fit the weight.
    """
    shape = tuple(weight.shape)
    try:
        for file, strength in adapters:
            weight = merged_weight(weight, _like(weight, file, layer), strength)
    except (ValueError, RuntimeError) as error:  # RuntimeError: torch's, of shapes
        raise UserError(
            f"{layer.component}.{layer.path}: the LoRA does not fit this layer ({error})",
            f"Expected an adapter for a weight of shape {shape}",
            "Choose a LoRA that was trained on this model family",
        ) from error
    return weight


def merged_layer_bias(
    layer: Layer, bias: Tensor, adapters: Sequence[tuple[LoraFile, float]]
) -> Tensor:
    """Return a layer's bias, in its dtype, with all files' changes of it."""
    for file, strength in adapters:
        bias = merged_bias(bias, _like(bias, file, layer), strength)
    return bias


def _like(tensor: Tensor, file: LoraFile, layer: Layer) -> dict[str, Tensor]:
    return {key: each.to(tensor) for key, each in file.layers[layer].items()}


def _merge(layer: Layer, module: nn.Module, adapters: Sequence[tuple[LoraFile, float]]) -> None:
    """Merge all files' adapters of one layer."""
    parameters = dict(module.named_parameters(recurse=False))
    weight = merged_layer(layer, parameters["weight"].float(), adapters)
    if "bias" in parameters:
        bias = merged_layer_bias(layer, parameters["bias"].float(), adapters)
        parameters["bias"].copy_(bias)
    parameters["weight"].copy_(weight)
