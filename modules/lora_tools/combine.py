"""One LoRA of several, or of one at another rank."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Size, Tensor

from modules.formats.files.files import HASHES
from modules.formats.lora.lora_file import LoraFile
from modules.formats.lora.lora_names import Layer
from modules.lora_tools.layer_changes import (
    Strong,
    added_vectors,
    change_of_layer,
    needs_shape,
)
from modules.lora_tools.lora_layers import LayerChange, lora_layers
from modules.lora_tools.losses import LayerLoss
from modules.lora_tools.low_rank import RankLimit
from modules.methods.adapters.energy import (
    is_relative,
    layers_of,
    share_left_out,
    vector_energy,
    weight_energy,
)
from onetrainer.errors import UserError
from onetrainer.messages.formatting import counted
from onetrainer.model_files.adapter_keys import DOWN


@dataclass(frozen=True)
class NamedLora:
    """A LoRA with the name of its file and its strength; 1 is as trained."""

    name: str
    file: LoraFile
    strength: float


@dataclass(frozen=True)
class Weights:
    """What is known of the model's weights.

    Attributes:
        shapes: Of each layer's weight; layers of other models are missing.
        read: Returns a layer's weight; None without a base model.
    """

    shapes: Mapping[Layer, Size]
    read: Callable[[Layer], Tensor] | None = None


def combine(
    loras: Sequence[NamedLora],
    weights: Weights,
    limit: RankLimit | None,
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[LoraFile, list[LayerLoss], list[str]]:
    """Return one LoRA with the effect of all, what it lost, and notes for people.

    Metadata that all files have in common is kept, and so are their embeddings.

    Args:
        loras: In the order in which they are merged.
        weights: Of the model that they are for.
        limit: None keeps sums of plain LoRAs as they are, of a rank that is the sum of their ranks.
        dtype: Of the new LoRA's matrices.
        device: Where changes are computed, in float64.

    Raises:
        UserError: If adapters need a base model, or do not fit each other or the base model.
    """
    changes = _changes(loras, weights, device)
    layers, losses = lora_layers(changes, limit, dtype)
    losses += [loss for lora in loras for loss in left_out_of(lora.file, lora.strength)]
    embeddings = _embeddings(loras)
    common = _in_common([lora.file.metadata for lora in loras])
    notes = [
        f"{lora.name}: left out {counted(len(lora.file.unknown), 'tensor')} that belong to no layer"
        f" of the model, first {min(lora.file.unknown)}:"
        f" {share_left_out(lora.file, layers_of(lora.file.unknown).values())}."
        for lora in loras
        if lora.file.unknown
    ]
    return LoraFile(layers, embeddings, {}, common, "kohya"), losses, notes


def left_out_of(file: LoraFile, strength: float) -> Iterator[LayerLoss]:
    """Yield the loss of each layer of a file that is none of the model's."""
    for name, tensors in layers_of(file.unknown).items():
        if not tensors.keys() - {"", "weight"}:
            continue
        energy = (weight_energy(tensors) or 0.0) + vector_energy(tensors)
        lost = strength**2 * energy
        yield LayerLoss(Layer("unknown", name), 0, lost, lost, lost)


def _changes(
    loras: Sequence[NamedLora], weights: Weights, device: torch.device
) -> Iterator[LayerChange]:
    found = {layer for lora in loras for layer in lora.file.layers}
    for layer in sorted(found):
        members = [lora for lora in loras if layer in lora.file.layers]
        adapters = [_on(device, lora.file.layers[layer], lora.strength) for lora in members]
        shape, weight = _shape_and_weight(layer, adapters, members, weights)
        try:
            change = change_of_layer(
                adapters, shape=shape, weight=None if weight is None else weight.to(device)
            )
        except (ValueError, RuntimeError) as error:  # RuntimeError: torch's, of shapes
            names = " and ".join(lora.name for lora in members)
            raise UserError(
                f"{names}: {layer.component}.{layer.path} does not fit ({error})",
                "Expected LoRAs that were trained on the same model family",
                "Leave one out; `onetrainer show` tells what each is for",
            ) from error
        yield LayerChange(layer, change, _inputs(adapters, shape), added_vectors(adapters))


def _on(device: torch.device, tensors: Mapping[str, Tensor], strength: float) -> Strong:
    return {key: tensor.to(device) for key, tensor in tensors.items()}, strength


def _shape_and_weight(
    layer: Layer, adapters: Sequence[Strong], members: Sequence[NamedLora], weights: Weights
) -> tuple[Size | None, Tensor | None]:
    """Return as much of the layer's weight as its adapters need."""
    relative = [
        lora for lora, (tensors, _) in zip(members, adapters, strict=True) if is_relative(tensors)
    ]
    if relative and weights.read is None:
        raise UserError(
            f"{relative[0].name}: what it changes depends on the weights that it changes"
            " (DoRA, OFT, (IA)³ and GLoRA do)",
            "Expected the base model that it was trained on",
            "Add --base MODEL",
        )
    if not any(needs_shape(tensors) for tensors, _ in adapters):
        return None, None
    if layer not in weights.shapes:
        raise UserError(
            f"{members[0].name}: the shape of {layer.component}.{layer.path} is not known",
            "Expected the base model that it was trained on",
            "Add --base MODEL",
        )
    return weights.shapes[layer], weights.read(layer) if relative and weights.read else None


def _inputs(adapters: Sequence[Strong], shape: Size | None) -> Size:
    if shape is not None:
        return shape[1:]
    return next((tensors[DOWN].shape[1:] for tensors, _ in adapters if DOWN in tensors), Size())


def _embeddings(loras: Sequence[NamedLora]) -> dict[str, Mapping[str, Tensor]]:
    """Return the embeddings of all files; raise UserError if two share a token."""
    embeddings: dict[str, Mapping[str, Tensor]] = {}
    for lora in loras:
        for token, vectors in lora.file.embeddings.items():
            if token in embeddings:
                raise UserError(
                    f'{lora.name}: another file also has an embedding for the token "{token}"',
                    "Expected a different token for each embedding",
                    "Take one of them out first: onetrainer convert FILE OUT --name TOKEN",
                )
            embeddings[token] = vectors
    return embeddings


def _in_common(metadata: Sequence[Mapping[str, str]]) -> dict[str, str]:
    first, *others = metadata
    return {
        key: text
        for key, text in first.items()
        if key not in HASHES and all(other.get(key) == text for other in others)
    }
