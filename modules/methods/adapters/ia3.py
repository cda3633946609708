"""(IA)³: a layer's inputs or outputs, each times a trained factor.

Source: Liu et al. 2022, arXiv:2205.05638; in LyCORIS' form and files ("ia3"), which hold the
factors less one. Keys and values are rescaled behind their projections, and feed-forward layers
inside: before the projection out.
"""

import torch
from torch import Tensor, nn

from modules.formats.lora.lora_keys import AdapterTensors
from modules.formats.lora.lora_names import Layer
from modules.memory.quantize import product_without_bias
from modules.methods.adapters.kind import AdapterKind, AdapterModule, AdapterPlan
from modules.methods.adapters.lycoris_modules import IA3Module
from onetrainer.config.methods.ia3 import Ia3

FACTORS, ON_INPUT = "weight", "on_input"
KEYS_VALUES = ("to_k", "to_v", "k_proj", "v_proj")
FEED_FORWARD = ("ff.net.2", "mlp.fc2")  # the projections out, whose inputs are rescaled


class Ia3Adapter(AdapterModule, IA3Module):  # type: ignore[misc] # LyCORIS has no types
    """One layer's (IA)³, which rescales the product of the layer's weight, without its bias.

    LyCORIS rounds its rebuilt weight, or rescales the bias too, which no merged file could repeat.
    """

    def __init__(self, name: str, plan: AdapterPlan, section: Ia3) -> None:
        super().__init__(
            name,
            plan.module,
            module_dropout=section.module_dropout,
            bypass_mode=True,
            train_on_input=plan.layer.path.endswith(FEED_FORWARD),
        )

    def initialize(self, generator: torch.Generator) -> None:
        nn.init.zeros_(self.weight)

    def tensors(self) -> dict[str, Tensor]:
        return {FACTORS: self.weight.detach(), ON_INPUT: torch.tensor(int(self.train_input))}

    def change(self, x: Tensor, output: Tensor) -> Tensor:
        if self.train_input:
            return product_without_bias(self.org_module[0], x * self.weight.to(x.dtype))
        factors: Tensor = self.weight.to(output.dtype)
        return self.without_bias(output) * factors


class Ia3Kind(AdapterKind):
    """(IA)³, trained factors of activations."""

    module = Ia3Adapter
    name = "IA3"
    algo = "ia3"
    sizes = "method.targets and method.layers"
    section: Ia3

    def dimensions(self, rank: str, alpha: str) -> dict[str, str]:
        return {}

    def chooses(self, layer: Layer, path: str) -> bool:
        is_rescaled = self.section.targets == "full" or path.endswith(KEYS_VALUES + FEED_FORWARD)
        return is_rescaled and super().chooses(layer, path)

    def start_tensors(self, adapter: AdapterModule, tensors: AdapterTensors) -> AdapterTensors:
        fits = bool(tensors[ON_INPUT]) == adapter.train_input
        return {FACTORS: tensors[FACTORS]} if fits else {}
