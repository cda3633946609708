"""LoRAs merged into the weights of a stored model, tensor by tensor as they are written."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from modules.formats.files.tensor_source import LazyTensor, as_lazy
from modules.formats.lora.lora_file import LoraFile
from modules.formats.lora.lora_names import Layer, LayerNames
from modules.formats.models.whole_model import Tensors, WholeModel
from modules.methods.merge import merged_layer, merged_layer_bias
from onetrainer.families.registry import base_of, folder_of, lora_components

Strong = Sequence[tuple[LoraFile, float]]


def names_of_model(model: WholeModel) -> LayerNames:
    """Return the names in LoRA files of a stored model's layers."""
    base = base_of(model.description.family.name)
    return LayerNames.of(
        base, {each: list(model.components[folder_of(each)]) for each in lora_components(base)}
    )


def baked(model: WholeModel, loras: Strong) -> WholeModel:
    """Return the model with LoRAs merged into its weights, each with its strength.

    Computed in float32 when a tensor is read, and cast to the tensor's dtype once.
    """
    components: dict[str, Tensors] = dict(model.components)
    for layer in sorted({layer for file, _ in loras for layer in file.layers}):
        adapters = [(file, strength) for file, strength in loras if layer in file.layers]
        folder = folder_of(layer.component)
        tensors = dict(components[folder])
        for name, is_bias in ((f"{layer.path}.weight", False), (f"{layer.path}.bias", True)):
            if name in tensors:
                tensors[name] = _merged(layer, tensors[name], adapters, is_bias=is_bias)
        components[folder] = tensors
    return replace(model, components=components)


def _merged(
    layer: Layer, tensor: Tensor | LazyTensor, adapters: Strong, *, is_bias: bool
) -> LazyTensor:
    source = as_lazy(tensor)
    merge = merged_layer_bias if is_bias else merged_layer

    def read() -> Tensor:
        with torch.no_grad():
            return merge(layer, source.read().float(), adapters).to(source.dtype)

    return LazyTensor(source.dtype, source.shape, read)
