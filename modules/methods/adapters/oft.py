"""OFT: a layer's outputs rotated in blocks by orthogonal matrices.

Source: Qiu et al. 2023, arXiv:2306.07280; in LyCORIS' form and files ("diag-oft").
"""

import math

import torch
from lycoris.modules.diag_oft import DiagOFTModule
from torch import Tensor, nn

from modules.methods.adapters.dropout import adapter_output
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


class OftAdapter(DiagOFTModule):  # type: ignore[misc] # LyCORIS has no types
    """One layer's OFT, which rotates the output of the layer's weight, without its bias.

    block_size: The most outputs rotated together.
    Rotating the output equals rotating the weight's rows; no weight is rebuilt, and the change
    keeps its precision in half precision. LyCORIS rounds its rebuilt weight, or rotates the bias
    too, and synchronizes with the GPU at every call.
    """

    def __init__(
        self, name: str, layer: nn.Module, *, block_size: int, constraint: float, dropout: float
    ) -> None:
        super().__init__(
            name,
            layer,
            lora_dim=oft_block_size(output_count(layer), block_size),
            constraint=constraint,
            module_dropout=dropout,
            bypass_mode=True,
        )

    def initialize(self, generator: torch.Generator) -> None:
        """Set initial values with which the adapter has no effect: zeros."""
        nn.init.zeros_(self.oft_blocks)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output with the adapter's change, in x's dtype."""
        return adapter_output(self, x, self._change)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the adapter's file, with the constraint applied.

        Programs disagree on the meaning of a constraint in a file: ComfyUI takes it as it is,
        LyCORIS for each output.
        """
        blocks = self.oft_blocks.detach()
        return {BLOCKS: blocks * self._constraint_factor(blocks), ALPHA: torch.tensor(0.0)}

    def _change(self, x: Tensor, output: Tensor) -> Tensor:
        bias = self.org_module[0].bias
        kernel = output.shape[2:] if self.module_type == "conv2d" else ()
        if bias is not None:
            output = output - bias.to(output.dtype).view(-1, *[1] * len(kernel))
        with torch.autocast(x.device.type, enabled=False):
            rotations = self._rotations().to(output.dtype)  # (blocks, size, size), less identity
        blocks, size, _ = rotations.shape
        if kernel:
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
