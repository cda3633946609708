"""How much of a file's change is carried: the sums of squares of what its tensors change."""

from collections.abc import Collection, Iterable, Mapping

import torch
from torch import Tensor

from modules.formats.lora.lora_file import LoraFile
from modules.formats.lora.lora_keys import AdapterTensors, scale_of
from modules.methods.adapters.weight_formulas import low_rank_change
from onetrainer.model_files.adapter_keys import ALPHA, DORA, DOWN, MID, UP, split
from onetrainer.model_files.adapter_layers import ADDED, form_of

RELATIVE = frozenset({DORA, "oft_blocks", "on_input", "a1.weight"})
"""Tensors of adapters whose change depends on the weight that they change: DoRA, OFT and BOFT,
(IA)3, GLoRA."""


BIASES = ("diff_b", "b_norm")
"""Changes that only layers with a bias have a place for."""


def is_relative(tensors: Collection[str]) -> bool:
    """Return whether an adapter's change depends on the weight."""
    return not RELATIVE.isdisjoint(tensors)


def weight_energy(tensors: AdapterTensors) -> float | None:
    """Return the energy of a layer's change of its weight; None if it cannot be told without it.

    Layers that no model has may be incomplete.
    """
    own = {key: t.double() for key, t in tensors.items() if key not in (*ADDED, "scalar")}
    if not own.keys() - {ALPHA}:
        return 0.0
    form = form_of(own.keys())
    if is_relative(own) or form is None or form.missing(own.keys()):
        return None
    factor = float(tensors["scalar"]) ** 2 if "scalar" in tensors else 1.0
    if own.keys() <= {UP, DOWN, ALPHA} and MID not in own:
        up, down = own[UP].flatten(1), own[DOWN].flatten(1)
        product = ((up.T @ up) * (down @ down.T)).sum()  # without the matrix itself
        return factor * scale_of(own) ** 2 * float(product)
    change = own["diff"] if "diff" in own else low_rank_change(own)
    return factor * float(change.square().sum())


def vector_energy(tensors: AdapterTensors, kinds: Iterable[str] = ADDED) -> float:
    """Return the energy of a layer's changes of its bias and its norm."""
    return sum(float(tensors[kind].double().square().sum()) for kind in kinds if kind in tensors)


def layers_of(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Return tensors that belong to no layer of a model by the layers that they would belong to."""
    layers: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        name, kind = split(key) or (key, "")
        layers.setdefault(name, {})[kind] = tensor
    return layers


def share_left_out(file: LoraFile, left_out: Iterable[AdapterTensors]) -> str:
    """Return how much of a file's change is in tensors that are left out: "2.3% of the change".

    left_out: By kind, of each layer; what is no adapter changes nothing.
    """
    with torch.no_grad():
        part = _energy(left_out)
        rest = _energy([*file.layers.values(), *layers_of(file.unknown).values()])
    if part is None or rest is None:
        return "how much of the change that is depends on the model's weights"
    return f"{part / rest if rest else 0.0:.2%} of the change's energy"


def _energy(layers: Iterable[AdapterTensors]) -> float | None:
    total = 0.0
    for tensors in layers:
        if "" in tensors or ("weight" in tensors and "on_input" not in tensors):
            continue
        energy = weight_energy(tensors)
        if energy is None:
            return None
        total += energy + vector_energy(tensors)
    return total
