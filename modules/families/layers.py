"""Layers of a family's networks: the blocks that are checkpointed and offloaded separately."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest

from torch import nn
from transformers.models.clip.modeling_clip import CLIPEncoderLayer

UNET, VAE = "unet", "vae"


def component_layers(
    unet: nn.Module, vae: nn.Module, text_encoders: Mapping[str, nn.Module]
) -> dict[str, list[nn.Module]]:
    """Return every component's layers in the order in which its forward computes them.

    "unet": each residual block and each transformer block. Text encoders: the encoder layers.
    "vae": the residual blocks and the attention of the decoder; the encoder is never trained.
    """
    encoders: dict[str, list[nn.Module]] = {
        name: [module for module in encoder.modules() if isinstance(module, CLIPEncoderLayer)]
        for name, encoder in text_encoders.items()
    }
    return {
        UNET: list(_layers(unet)),
        **encoders,
        VAE: list(_layers(vae.get_submodule("decoder"))),
    }


def _layers(network: nn.Module) -> Iterator[nn.Module]:
    """Yield the layers of a UNet or of a VAE's decoder: down, middle, up."""
    blocks = dict(network.named_children())
    for name in ("down_blocks", "mid_block", "up_blocks"):
        if name == "mid_block":
            yield from _interleaved(blocks[name])
        elif name in blocks:
            for block in blocks[name].children():
                yield from _interleaved(block)


def _interleaved(block: nn.Module) -> Iterator[nn.Module]:
    """Yield residual blocks and attentions alternately, as computed; the block lists them apart."""
    children = dict(block.named_children())
    attentions = children["attentions"].children() if "attentions" in children else ()
    for residual, attention in zip_longest(children["resnets"].children(), attentions):
        if residual is not None:
            yield residual
        if attention is not None:
            # A transformer's norm and projections belong to no layer.
            inner = dict(attention.named_children()).get("transformer_blocks")
            yield from [attention] if inner is None else inner.children()
