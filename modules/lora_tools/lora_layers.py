"""Layers of a new LoRA from changes of weights, at the rank that is asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Size, Tensor

from modules.formats.lora.lora_names import Layer
from modules.lora_tools.losses import LayerLoss
from modules.lora_tools.low_rank import Product, RankLimit, distance_of, energy_of, reduce
from onetrainer.model_files.adapter_keys import ALPHA, DOWN, UP


@dataclass(frozen=True)
class LayerChange:
    """How a layer is to change.

    Attributes:
        change: A product, or a matrix (out, in * …), in float64; None if the weight stays.
        inputs: The shape of one output's weights: (in,) or (in, h, w).
        added: Changes of its bias or norm, as files name them.
    """

    layer: Layer
    change: Product | Tensor | None
    inputs: Size
    added: Mapping[str, Tensor]


def lora_layers(
    changes: Iterator[LayerChange], limit: RankLimit | None, dtype: torch.dtype
) -> tuple[dict[Layer, dict[str, Tensor]], list[LayerLoss]]:
    """Return the tensors of a LoRA that makes these changes, and what it lost of them.

    Alpha is the rank. Layers whose change is zero are left out.

    Args:
        changes: In float64, with which the tensors are compared as they are.
        limit: None leaves products as they are.
        dtype: Of the matrices.
    """
    layers: dict[Layer, dict[str, Tensor]] = {}
    losses = list[LayerLoss]()
    for each in changes:
        tensors = dict(each.added)
        losses += _of_vectors(each)
        if each.change is not None:
            product, left_out = _reduced(each.change, limit)
            product = Product(product.up.to(dtype), product.down.to(dtype))
            stored = Product(product.up.double(), product.down.double())
            lost, energy = distance_of(each.change, stored), energy_of(each.change)
            losses.append(LayerLoss(each.layer, product.rank, energy, lost, left_out))
            tensors |= _tensors(product, each.inputs) if product.rank else {}
        if tensors:
            layers[each.layer] = tensors
    return layers, losses


def _of_vectors(change: LayerChange) -> Iterator[LayerLoss]:
    """Yield that changes of biases and norms are kept."""
    for kind, tensor in change.added.items():
        layer = Layer(change.layer.component, f"{change.layer.path}.{kind}")
        yield LayerLoss(layer, 0, energy_of(tensor.double()), 0.0, is_vector=True)


def _reduced(change: Product | Tensor, limit: RankLimit | None) -> tuple[Product, float]:
    """Return a change at the rank that is asked for, and the energy that is left out."""
    if limit is None and isinstance(change, Product):
        return change, 0.0
    reduced = reduce(change, limit or RankLimit())
    return reduced.product, reduced.lost


def _tensors(product: Product, inputs: Size) -> dict[str, Tensor]:
    kernel = [1] * (len(inputs) - 1)
    up, down = product.up.cpu(), product.down.cpu()
    return {
        UP: up.reshape(*up.shape, *kernel).contiguous(),
        DOWN: down.reshape(len(down), *inputs).contiguous(),
        ALPHA: torch.tensor(float(product.rank)),
    }
