"""LoKr: a layer's change as the Kronecker product of a small matrix and a larger one.

Source: Yeh et al. 2023, arXiv:2309.14859.
"""

import math
from collections.abc import Collection

import torch
from torch import Tensor, nn

from modules.methods.adapters.kind import AdapterKind, AdapterModule, AdapterPlan, LowRankModule
from modules.methods.adapters.lycoris_modules import LokrModule, kron_bypass
from onetrainer.config.methods.low_rank import LoKr


class LokrAdapter(LowRankModule, LokrModule):  # type: ignore[misc] # LyCORIS has no types
    """One layer's LoKr, computed without building the product.

    Each of the two matrices is whole ("lokr_w1", "lokr_w2") or a product of low rank ("…_a",
    "…_b"). Rank dropout drops ranks of the larger one, or of the smaller if only that has any; it
    has no effect if both are whole.
    """

    reads_copies = True

    def __init__(self, name: str, plan: AdapterPlan, section: LoKr) -> None:
        super().__init__(
            name,
            plan,
            section,
            factor=section.factor,
            decompose_both=section.decompose_both,
            full_matrix=section.full_matrix,
        )

    @property
    def is_whole(self) -> bool:
        """Whether neither matrix is of low rank, so that rank and alpha have no effect."""
        return bool(self.use_w1 and self.use_w2)

    def initialize(self, generator: torch.Generator) -> None:
        matrices = dict(self.named_parameters())
        zero_initialized = "lokr_w2" if self.use_w2 else "lokr_w2_b"
        for key in sorted(matrices):
            if key == zero_initialized:
                nn.init.zeros_(matrices[key])
            else:
                nn.init.kaiming_uniform_(matrices[key], a=math.sqrt(5), generator=generator)

    def change(self, x: Tensor, output: Tensor) -> Tensor:
        matrices = {name: self.cast(name, own, x.dtype) for name, own in self.named_parameters()}
        ranks = "lokr_w1_a" if self.use_w2 else "lokr_w2_a"
        if ranks in matrices:
            matrices[ranks] = self.drop_ranks(matrices[ranks])
        kernel = self.shape[2:]
        if "lokr_w2_b" in matrices and kernel:  # stored as (rank, in * kernel)
            inputs = matrices["lokr_w2_b"]
            matrices["lokr_w2_b"] = inputs.view(len(inputs), -1, *kernel)
        w1, w1_a, w1_b, w2, w2_a, w2_b = (
            matrices.get(key)
            for key in ("lokr_w1", "lokr_w1_a", "lokr_w1_b", "lokr_w2", "lokr_w2_a", "lokr_w2_b")
        )
        added: Tensor = kron_bypass(
            self.dropout(x),
            *(w1, w1_a, w1_b, w2, w2_a, w2_b),
            scale=self.scale,
            extra_args=self.kw_dict,
            backend="torch",
        )
        return added


class LokrKind(AdapterKind):
    """LoKr, the Kronecker product of a small matrix and a larger one."""

    module = LokrAdapter
    name = "LoKr"
    algo = "lokr"
    large = ("lokr_w1", "lokr_w1_a")
    zero_initialized = ("lokr_w2", "lokr_w2_b")
    sizes = "method.rank, factor, decompose_both and full_matrix"
    section: LoKr

    def arguments(self) -> dict[str, str]:
        return {
            **super().arguments(),
            "factor": str(self.section.factor),
            "decompose_both": str(self.section.decompose_both),
            "full_matrix": str(self.section.full_matrix),
        }

    def notes(self, adapters: Collection[AdapterModule]) -> tuple[str, ...]:
        whole = sum(isinstance(each, LokrAdapter) and each.is_whole for each in adapters)
        if self.section.full_matrix or not whole:
            return ()
        return (
            f"LoKr: rank, alpha and rank dropout have no effect on {whole} of {len(adapters)}"
            " layers, which are too small for this rank: both matrices are kept whole",
        )
