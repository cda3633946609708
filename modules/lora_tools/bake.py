"""LoRAs merged into the weights of a stored model, tensor by tensor as they are written."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from modules.formats.files.tensor_source import LazyTensor, as_lazy
from modules.formats.lora.lora_file import LoraFile
from modules.formats.lora.lora_names import Layer, LayerNames
from modules.formats.models.whole_model import Tensors, WholeModel
from modules.lora_tools.combine import left_out_of
from modules.lora_tools.losses import LayerLoss
from modules.lora_tools.low_rank import energy_of
from modules.methods.adapters.energy import BIASES, vector_energy
from modules.methods.merge import merged_layer, merged_layer_bias
from onetrainer.families.registry import base_of, folder_of, lora_components

Strong = Sequence[tuple[LoraFile, float]]


def names_of_model(model: WholeModel) -> LayerNames:
    """Return the names in LoRA files of a stored model's layers."""
    base = base_of(model.description.family.name)
    return LayerNames.of(
        base, {each: list(model.components[folder_of(each)]) for each in lora_components(base)}
    )


def baked(
    model: WholeModel,
    loras: Strong,
    losses: dict[Layer, LayerLoss],
    *,
    dtype: torch.dtype | None,
) -> WholeModel:
    """Return the model with LoRAs merged into its weights, each with its strength.

    Computed in float64 when a tensor is read, and cast to the tensor's dtype once.

    Args:
        model: The base model.
        loras: In the order in which they are merged.
        losses: Gets what rounding loses of a layer's change, when its weight is read.
        dtype: That weights are written in; None for each tensor's own.
    """
    components: dict[str, Tensors] = dict(model.components)
    for layer in sorted({layer for file, _ in loras for layer in file.layers}):
        adapters = [(file, strength) for file, strength in loras if layer in file.layers]
        folder = folder_of(layer.component)
        tensors = dict(components[folder])
        weight, bias = f"{layer.path}.weight", f"{layer.path}.bias"
        if weight in tensors:
            tensors[weight] = _merged(layer, tensors[weight], adapters, losses, dtype)
        if bias in tensors:
            tensors[bias] = _merged_bias(layer, tensors[bias], adapters, losses)
        else:
            _lose_bias(layer, adapters, losses)
        components[folder] = tensors
    for file, strength in loras:
        losses |= {loss.layer: loss for loss in left_out_of(file, strength)}
    return replace(model, components=components)


def _lose_bias(layer: Layer, adapters: Strong, losses: dict[Layer, LayerLoss]) -> None:
    """Note the changes of a bias that the model's layer does not have."""
    lost = sum(s**2 * vector_energy(file.layers[layer], BIASES) for file, s in adapters)
    if lost:
        place = Layer(layer.component, f"{layer.path}.bias")
        losses[place] = LayerLoss(place, 0, lost, lost, lost, is_vector=True)


def _merged(
    layer: Layer,
    tensor: Tensor | LazyTensor,
    adapters: Strong,
    losses: dict[Layer, LayerLoss],
    dtype: torch.dtype | None,
) -> LazyTensor:
    source = as_lazy(tensor)

    def read() -> Tensor:
        with torch.no_grad():
            before = source.read().double()
            exact = merged_layer(layer, before, adapters)
            rounded = exact.to(source.dtype)
            lost = rounded.to(dtype or source.dtype).double() - exact
            losses[layer] = LayerLoss(layer, 0, energy_of(exact - before), energy_of(lost))
        return rounded

    return LazyTensor(source.dtype, source.shape, read)


def _merged_bias(
    layer: Layer,
    tensor: Tensor | LazyTensor,
    adapters: Strong,
    losses: dict[Layer, LayerLoss],
) -> LazyTensor:
    source, place = as_lazy(tensor), Layer(layer.component, f"{layer.path}.bias")

    def read() -> Tensor:
        before = source.read().double()
        exact = merged_layer_bias(layer, before, adapters)
        rounded = exact.to(source.dtype)
        energy, lost = energy_of(exact - before), energy_of(rounded.double() - exact)
        losses[place] = LayerLoss(place, 0, energy, lost, is_vector=True)
        return rounded

    return LazyTensor(source.dtype, source.shape, read)
