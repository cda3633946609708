"""OFT: a layer's outputs rotated in blocks by orthogonal matrices.

Source: Qiu et al. 2023, arXiv:2306.07280; in LyCORIS' form and files ("diag-oft").
"""

import math

import torch
from torch import Tensor, nn

from modules.formats.lora.lora_keys import AdapterTensors
from modules.formats.lora.lora_metadata import DIM
from modules.methods.adapters.kind import AdapterKind, AdapterModule, AdapterPlan
from modules.methods.adapters.lycoris_modules import DiagOFTModule
from modules.methods.adapters.weight_formulas import constrain_blocks
from onetrainer.config.methods.oft import Oft
from onetrainer.model_files.adapter_keys import ALPHA

BLOCKS = "oft_blocks"
EPSILON = 1e-8  # added to norms before dividing by them


def oft_block_size(outputs: int, max_size: int) -> int:
    """Return the largest block size that divides a layer's outputs, at most `max_size`.

    Never more than the number of blocks: LyCORIS derives its blocks from the size alone, and takes
    the smaller of size and count as the size.
    """
    largest = min(max_size, math.isqrt(outputs))
    return max(size for size in range(1, largest + 1) if outputs % size == 0)


def output_count(layer: nn.Module) -> int:
    """Return the number of outputs of a linear layer or a convolution."""
    if isinstance(layer, nn.Conv2d):
        return layer.out_channels
    assert isinstance(layer, nn.Linear)
    return layer.out_features


class OftAdapter(AdapterModule, DiagOFTModule):  # type: ignore[misc] # LyCORIS has no types
    """One layer's OFT, which rotates the output of the layer's weight, without its bias.

    Rotating the output equals rotating the weight's rows; no weight is rebuilt, and the change
    keeps its precision in half precision. LyCORIS rounds its rebuilt weight, or rotates the bias
    too, and synchronizes with the GPU at every call.
    """

    def __init__(self, name: str, plan: AdapterPlan, section: Oft) -> None:
        super().__init__(
            name,
            plan.module,
            lora_dim=oft_block_size(output_count(plan.module), section.block_size),
            constraint=section.constraint,
            module_dropout=section.module_dropout,
            bypass_mode=True,
        )

    def initialize(self, generator: torch.Generator) -> None:
        nn.init.zeros_(self.oft_blocks)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the adapter's file, with the constraint applied.

        Programs disagree on the meaning of a constraint in a file: ComfyUI takes it as it is,
        LyCORIS for each output.
        """
        blocks = self.oft_blocks.detach()
        return {BLOCKS: blocks * self._constraint_factor(blocks), ALPHA: torch.tensor(0.0)}

    def change(self, x: Tensor, output: Tensor) -> Tensor:
        is_convolution = self.module_type == "conv2d"
        output = self.without_bias(output)
        with torch.autocast(x.device.type, enabled=False):
            rotations = self._rotations().to(output.dtype)  # (blocks, size, size), less identity
        blocks, size, _ = rotations.shape
        if is_convolution:
            rows = output.reshape(len(output), blocks, size, -1)
            return torch.einsum("knm,bknp->bkmp", rotations, rows).reshape(output.shape)
        rows = output.reshape(*output.shape[:-1], blocks, size)
        return torch.einsum("knm,...kn->...km", rotations, rows).reshape(output.shape)

    def _rotations(self) -> Tensor:
        """Return Cayley's transform less the identity: 2 Q / (1 - Q), float32."""
        skew = self.oft_blocks - self.oft_blocks.transpose(1, 2)
        skew = skew * self._constraint_factor(self.oft_blocks)
        identity = torch.eye(skew.shape[-1], device=skew.device)
        # solve_ex does not check for errors on the GPU: 1 - Q is invertible for every skew Q.
        rotations: Tensor = torch.linalg.solve_ex(identity - skew, 2 * skew, left=False).result
        return rotations

    def _constraint_factor(self, blocks: Tensor) -> Tensor:
        """Return the factor that limits the blocks' rotation to the constraint."""
        if not self.constraint:
            return blocks.new_ones(())
        skew = blocks - blocks.transpose(1, 2)
        factor: Tensor = self.constraint / (torch.linalg.vector_norm(skew) + EPSILON)
        return factor.clamp(max=1)


class OftKind(AdapterKind):
    """OFT, orthogonal rotations of a layer's outputs in blocks."""

    module = OftAdapter
    name = "OFT"
    algo = "diag-oft"
    sizes = "method.block_size"
    skip_reason = "whose outputs cannot be divided into blocks larger than 1"
    section: Oft

    @classmethod
    def recognizes(cls, tensors: AdapterTensors) -> bool:
        return super().recognizes(tensors) and tensors[BLOCKS].ndim == 3

    def arguments(self) -> dict[str, str]:
        return {**super().arguments(), "constraint": str(self.section.constraint)}

    def dimensions(self, rank: str, alpha: str) -> dict[str, str]:
        return {DIM: str(self.section.block_size)}

    def has_effect(self, plan: AdapterPlan) -> bool:
        return oft_block_size(output_count(plan.module), self.section.block_size) > 1

    def start_tensors(self, adapter: AdapterModule, tensors: AdapterTensors) -> AdapterTensors:
        return {BLOCKS: constrain_blocks(tensors)}
