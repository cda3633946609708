"""Layers of a new LoRA from changes of weights, at the rank that is asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import Size, Tensor

from modules.formats.lora.lora_names import Layer
from modules.lora_tools.losses import LayerLoss
from modules.lora_tools.low_rank import Product, RankLimit, reduce
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
    changes: Iterator[LayerChange], limit: RankLimit | None
) -> tuple[dict[Layer, dict[str, Tensor]], list[LayerLoss]]:
    """Return the tensors of a LoRA that makes these changes, in float32, and what it lost.

    Alpha is the rank. Layers whose change is zero are left out.

    limit: None leaves products as they are.
    """
    layers: dict[Layer, dict[str, Tensor]] = {}
    losses = []
    for each in changes:
        tensors = dict(each.added)
        if each.change is not None:
            product, loss = _reduced(each.layer, each.change, limit)
            losses.append(loss)
            tensors |= _tensors(product, each.inputs) if product.rank else {}
        if tensors:
            layers[each.layer] = tensors
    return layers, losses


def _reduced(
    layer: Layer, change: Product | Tensor, limit: RankLimit | None
) -> tuple[Product, LayerLoss]:
    if limit is None and isinstance(change, Product):
        return change, LayerLoss(layer, change.rank, 1.0, 0.0)
    reduced = reduce(change, limit or RankLimit())
    product = reduced.product
    return product, LayerLoss(layer, product.rank, reduced.energy, reduced.lost)


def _tensors(product: Product, inputs: Size) -> dict[str, Tensor]:
    kernel = [1] * (len(inputs) - 1)
    up, down = product.up.float().cpu(), product.down.float().cpu()
    return {
        UP: up.reshape(*up.shape, *kernel).contiguous(),
        DOWN: down.reshape(len(down), *inputs).contiguous(),
        ALPHA: up.new_tensor(float(product.rank)),
    }
