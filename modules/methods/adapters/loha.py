"""LoHa: a layer's change as the elementwise product of two low-rank matrices.

Source: Hyeon-Woo et al. 2022, arXiv:2108.06098; Yeh et al. 2023, arXiv:2309.14859.
"""

import torch
from torch import Tensor, nn

from modules.methods.adapters.kind import AdapterKind, AdapterPlan, LowRankModule
from modules.methods.adapters.lycoris_modules import LohaModule, diff_weight
from onetrainer.config.methods.low_rank import LoHa


class LohaAdapter(LowRankModule, LohaModule):  # type: ignore[misc] # LyCORIS has no types
    """One layer's LoHa: scale * (w1_a w1_b) ∘ (w2_a w2_b), computed in float32, cast to x's dtype.

    Rank dropout drops ranks of the first pair: the product then loses that fraction of the change
    on average, since the second pair is complete. Under autocast LyCORIS computes the product in
    half precision.
    """

    def __init__(self, name: str, plan: AdapterPlan, section: LoHa) -> None:
        super().__init__(name, plan, section)
        # As a buffer: creating it at each call would synchronize with the GPU.
        self.register_buffer("gamma", torch.tensor(self.scale), persistent=False)

    def initialize(self, generator: torch.Generator) -> None:
        nn.init.normal_(self.hada_w1_b, std=1, generator=generator)
        nn.init.normal_(self.hada_w1_a, std=0.1, generator=generator)
        nn.init.normal_(self.hada_w2_b, std=1, generator=generator)
        nn.init.zeros_(self.hada_w2_a)

    def change(self, x: Tensor, output: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            weight = diff_weight(
                self.hada_w1_b,
                self.drop_ranks(self.hada_w1_a),
                self.hada_w2_b,
                self.hada_w2_a,
                None,
                None,
                gamma=self.gamma,
                backend="torch",
            ).view(self.shape)
        added: Tensor = self.op(self.dropout(x), weight.to(x.dtype), None, **self.kw_dict)
        return added


class LohaKind(AdapterKind):
    """LoHa, the elementwise product of two low-rank matrices."""

    module = LohaAdapter
    name = "LoHa"
    algo = "loha"
    large = ("hada_w1_b",)
    zero_initialized = ("hada_w2_a",)
    section: LoHa
