"""LoHa: a layer's change as the elementwise product of two low-rank matrices.

Source: Hyeon-Woo et al. 2022, arXiv:2108.06098; Yeh et al. 2023, arXiv:2309.14859.
"""

import torch
from lycoris.functional.loha import diff_weight
from lycoris.modules.loha import LohaModule
from torch import Tensor, nn

from modules.methods.adapters.dropout import Dropouts, adapter_output, drop_ranks
from onetrainer.model_files.adapter_keys import ALPHA

MATRICES = ("hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b")


class LohaAdapter(LohaModule):  # type: ignore[misc] # LyCORIS has no types
    """One layer's LoHa: scale * (w1_a w1_b) ∘ (w2_a w2_b), computed in float32, cast to x's dtype.

    Rank dropout drops ranks of the first pair: the product then loses that fraction of the change
    on average, since the second pair is complete. LyCORIS drops outputs, has no ordinary dropout,
    chooses a kernel at every call, and under autocast computes the product in half precision.
    """

    def __init__(
        self, name: str, layer: nn.Module, *, rank: int, alpha: float, dropouts: Dropouts
    ) -> None:
        super().__init__(
            name,
            layer,
            lora_dim=rank,
            alpha=alpha,
            rank_dropout=dropouts.ranks,
            module_dropout=dropouts.module,
            bypass_mode=True,
        )
        self.inputs_dropout = nn.Dropout(dropouts.inputs)  # LyCORIS prints that it has none
        # As a buffer: creating it at each call would synchronize with the GPU.
        self.register_buffer("gamma", torch.tensor(self.scale), persistent=False)

    def initialize(self, generator: torch.Generator) -> None:
        """Set initial values, by LyCORIS' distributions, with which the adapter has no effect."""
        nn.init.normal_(self.hada_w1_b, std=1, generator=generator)
        nn.init.normal_(self.hada_w1_a, std=0.1, generator=generator)
        nn.init.normal_(self.hada_w2_b, std=1, generator=generator)
        nn.init.zeros_(self.hada_w2_a)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output with the adapter's change, in x's dtype."""
        return adapter_output(self, x, self._change)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the adapter's file."""
        matrices = dict(self.named_parameters())
        return {**{key: matrices[key].detach() for key in MATRICES}, ALPHA: self.alpha.detach()}

    def _change(self, x: Tensor, output: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            weight = diff_weight(
                self.hada_w1_b,
                drop_ranks(self, self.hada_w1_a),
                self.hada_w2_b,
                self.hada_w2_a,
                None,
                None,
                gamma=self.gamma,
                backend="torch",
            ).view(self.shape)
        added: Tensor = self.op(self.inputs_dropout(x), weight.to(x.dtype), None, **self.kw_dict)
        return added
