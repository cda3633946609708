"""LoKr: a layer's change as the Kronecker product of a small matrix and a larger one.

Source: Yeh et al. 2023, arXiv:2309.14859.
"""

import math

import torch
from lycoris.functional.lokr import kron_bypass
from lycoris.modules.lokr import LokrModule
from torch import Tensor, nn

from modules.methods.adapters.dropout import Dropouts, adapter_output, drop_ranks
from onetrainer.config.methods.adapters import LoKr
from onetrainer.model_files.adapter_keys import ALPHA


class LokrAdapter(LokrModule):  # type: ignore[misc] # LyCORIS has no types
    """One layer's LoKr, computed without building the product.

    Each of the two matrices is whole ("lokr_w1", "lokr_w2") or a product of low rank ("…_a",
    "…_b"). Rank dropout drops ranks of the larger one, or of the smaller if only that has any; it
    has no effect if both are whole. LyCORIS drops outputs, has no ordinary dropout, and chooses a
    kernel at every call.
    """

    def __init__(
        self,
        name: str,
        layer: nn.Module,
        *,
        rank: int,
        alpha: float,
        section: LoKr,
        dropouts: Dropouts,
    ) -> None:
        super().__init__(
            name,
            layer,
            lora_dim=rank,
            alpha=alpha,
            rank_dropout=dropouts.ranks,
            module_dropout=dropouts.module,
            factor=section.factor,
            decompose_both=section.decompose_both,
            full_matrix=section.full_matrix,
            bypass_mode=True,
        )
        self.inputs_dropout = nn.Dropout(dropouts.inputs)  # LyCORIS prints that it has none

    @property
    def is_whole(self) -> bool:
        """Whether neither matrix is of low rank, so that rank and alpha have no effect."""
        return bool(self.use_w1 and self.use_w2)

    def initialize(self, generator: torch.Generator) -> None:
        """Set initial values, by LyCORIS' distributions, with which the adapter has no effect."""
        matrices = dict(self.named_parameters())
        zero_initialized = "lokr_w2" if self.use_w2 else "lokr_w2_b"
        for key in sorted(matrices):
            if key == zero_initialized:
                nn.init.zeros_(matrices[key])
            else:
                nn.init.kaiming_uniform_(matrices[key], a=math.sqrt(5), generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output with the adapter's change, in x's dtype."""
        return adapter_output(self, x, self._change)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the adapter's file."""
        matrices = {key: parameter.detach() for key, parameter in self.named_parameters()}
        return {**matrices, ALPHA: self.alpha.detach()}

    def _change(self, x: Tensor, output: Tensor) -> Tensor:
        matrices = dict(self.named_parameters())
        ranks = "lokr_w1_a" if self.use_w2 else "lokr_w2_a"
        if ranks in matrices:
            matrices[ranks] = drop_ranks(self, matrices[ranks])
        kernel = self.shape[2:]
        if "lokr_w2_b" in matrices and kernel:  # stored as (rank, in * kernel)
            inputs = matrices["lokr_w2_b"]
            matrices["lokr_w2_b"] = inputs.view(len(inputs), -1, *kernel)
        w1, w1_a, w1_b, w2, w2_a, w2_b = (
            matrices[key].to(x.dtype) if key in matrices else None
            for key in ("lokr_w1", "lokr_w1_a", "lokr_w1_b", "lokr_w2", "lokr_w2_a", "lokr_w2_b")
        )
        added: Tensor = kron_bypass(
            self.inputs_dropout(x),
            *(w1, w1_a, w1_b, w2, w2_a, w2_b),
            scale=self.scale,
            extra_args=self.kw_dict,
            backend="torch",
        )
        return added
