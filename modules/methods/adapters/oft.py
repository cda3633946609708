"""OFT: a layer's outputs turned in blocks, by orthogonal matrices.

Source: Qiu et al. 2023, arXiv:2306.07280; in LyCORIS' form and files ("diag-oft").
"""

import math

import torch
from lycoris.modules.diag_oft import DiagOFTModule
from torch import Tensor, nn

from modules.methods.adapters.dropout import adapter_output
from onetrainer.model_files.adapter_keys import ALPHA

BLOCKS = "oft_blocks"
NOT_ZERO = 1e-8  # added to norms before dividing by them


def oft_block_size(outputs: int, most: int) -> int:
    """The largest size of blocks that divides a layer's outputs, at most `most`.

    Never more than there are blocks: LyCORIS makes its blocks from their size alone, and takes the
    smaller of size and count as the size.
    """
    largest = min(most, math.isqrt(outputs))
    return max(size for size in range(1, largest + 1) if outputs % size == 0)


def output_count(layer: nn.Module) -> int:
    """How many outputs a linear layer or a convolution has."""
    if isinstance(layer, nn.Conv2d):
        return layer.out_channels
    assert isinstance(layer, nn.Linear)
    return layer.out_features


class OftAdapter(DiagOFTModule):  # type: ignore[misc] # LyCORIS has no types
    """One layer's OFT, which turns what the layer's weight gives, without its bias.

    block_size: the most outputs that are turned together.
    Turning the output is turning the weight's rows; no weight is rebuilt, and what is added keeps
    its digits in half precision. LyCORIS rounds its rebuilt weight, or turns the bias, too, and
    waits for the graphics card at every call.
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
        """Initial values, with which the adapter changes nothing: OFT begins with none at all."""
        nn.init.zeros_(self.oft_blocks)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output with the adapter's change, in x's dtype."""
        return adapter_output(self, x, self._change)

    def tensors(self) -> dict[str, Tensor]:
        """What a file holds of it, with the constraint already applied.

        Programs do not agree on what a constraint in a file means: ComfyUI takes it as it is,
        LyCORIS for each output.
        """
        blocks = self.oft_blocks.detach()
        return {BLOCKS: blocks * self._within(blocks), ALPHA: torch.tensor(0.0)}

    def _change(self, x: Tensor, output: Tensor) -> Tensor:
        bias = self.org_module[0].bias
        kernel = output.shape[2:] if self.module_type == "conv2d" else ()
        if bias is not None:
            output = output - bias.to(output.dtype).view(-1, *[1] * len(kernel))
        with torch.autocast(x.device.type, enabled=False):
            turns = self._turns().to(output.dtype)  # (blocks, size, size), less identity
        blocks, size, _ = turns.shape
        if kernel:
            rows = output.reshape(len(output), blocks, size, -1)
            return torch.einsum("knm,bknp->bkmp", turns, rows).reshape(output.shape)
        rows = output.reshape(*output.shape[:-1], blocks, size)
        return torch.einsum("knm,...kn->...km", turns, rows).reshape(output.shape)

    def _turns(self) -> Tensor:
        """Cayley's transform less the identity: (1 + Q) / (1 - Q) - 1 = 2 Q / (1 - Q), float32."""
        skew = self.oft_blocks - self.oft_blocks.transpose(1, 2)
        skew = skew * self._within(self.oft_blocks)
        identity = torch.eye(skew.shape[-1], device=skew.device)
        # solve_ex asks the card for no error: 1 - Q of a skew Q can always be inverted.
        turns: Tensor = torch.linalg.solve_ex(identity - skew, 2 * skew, left=False).result
        return turns

    def _within(self, blocks: Tensor) -> Tensor:
        """What blocks are to be multiplied by, so that they turn no further than allowed."""
        if not self.constraint:
            return blocks.new_ones(())
        skew = blocks - blocks.transpose(1, 2)
        share: Tensor = self.constraint / (torch.linalg.vector_norm(skew) + NOT_ZERO)
        return share.clamp(max=1)
