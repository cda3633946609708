"""The change of one layer by one or several adapters, each with its strength."""

from collections.abc import Mapping, Sequence
from functools import reduce as fold

import torch
from torch import Size, Tensor

from modules.formats.lora.lora_keys import AdapterTensors, scale_of
from modules.lora_tools.low_rank import Product, sum_of
from modules.methods.adapters.weight_formulas import merged_weight
from onetrainer.model_files.adapter_keys import ALPHA, DOWN, UP
from onetrainer.model_files.adapter_layers import ADDED

Strong = tuple[AdapterTensors, float]
"""An adapter's tensors and its strength; 1 is as trained."""

_PLAIN = frozenset({UP, DOWN, ALPHA, *ADDED})


def needs_shape(tensors: Mapping[str, object]) -> bool:
    """Return whether the layer's shape cannot be told from an adapter's tensors."""
    return bool(tensors.keys() - _PLAIN) and bool(tensors.keys() - {*ADDED, ALPHA})


def added_vectors(adapters: Sequence[Strong]) -> dict[str, Tensor]:
    """Return the sums of the changes of biases and norms, by their names, in float32."""
    sums: dict[str, Tensor] = {}
    for tensors, strength in adapters:
        for key in ADDED:
            if key in tensors:
                part = strength * tensors[key].double()
                sums[key] = sums[key] + part if key in sums else part
    return {key: total.float() for key, total in sums.items()}


def change_of_layer(
    adapters: Sequence[Strong], *, shape: Size | None = None, weight: Tensor | None = None
) -> Product | Tensor | None:
    """Return how adapters, one after the other, change a layer's weight together, in float64.

    A product if all are plain LoRAs, whose sum it is exactly; otherwise a matrix (out, in * …).
    None if no adapter changes the weight.

    Args:
        adapters: In the order in which they are merged, which matters for relative ones.
        shape: The weight's, (out, in, …); needed as `needs_shape` says.
        weight: The weight, of that shape; needed as `is_relative` says.

    Raises:
        ValueError: If adapters are of an unknown kind, or for another shape.
    """
    changing = [each for each in adapters if each[0].keys() - {*ADDED, ALPHA}]
    if not changing:
        return None
    if all(tensors.keys() <= _PLAIN for tensors, _ in changing):
        return sum_of([_product(*each) for each in changing])
    if weight is None:
        assert shape is not None
        alike = next(iter(changing[0][0].values()))
        weight = torch.zeros(shape, dtype=torch.float64, device=alike.device)
    if weight.ndim == 1:
        raise ValueError("it is neither a linear layer nor a convolution")
    before = weight.double()
    after = fold(_merge, changing, before)
    return (after - before).flatten(1)


def _product(tensors: AdapterTensors, strength: float) -> Product:
    """Return the change of a plain LoRA."""
    scale = strength * scale_of(tensors)
    up, down = (tensors[key].double().flatten(1) for key in (UP, DOWN))
    return Product(scale * up, down)


def _merge(weight: Tensor, adapter: Strong) -> Tensor:
    tensors, strength = adapter
    exact = {key: t.double() if t.is_floating_point() else t for key, t in tensors.items()}
    return merged_weight(weight, exact, strength)
