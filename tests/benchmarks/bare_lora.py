"""A LoRA as a bare loop has it."""

import torch
from diffusers.models.attention_processor import Attention
from torch import nn


class _LoraLinear(nn.Module):
    """A linear layer, and two small ones whose product is added to it."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + self.up(self.down(x))


def attach_lora(unet: nn.Module, rank: int) -> None:
    """Give each layer of a frozen UNet's attention a LoRA."""
    for layer in [each for each in unet.modules() if isinstance(each, Attention)]:
        for name in ("to_q", "to_k", "to_v"):
            setattr(layer, name, _LoraLinear(getattr(layer, name), rank))
        layer.to_out[0] = _LoraLinear(layer.to_out[0], rank)
