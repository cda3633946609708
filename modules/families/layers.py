"""The layers of a family's networks: the blocks that are checkpointed and offloaded, each alone."""

from collections.abc import Iterator
from itertools import zip_longest

from torch import nn
from transformers.models.clip.modeling_clip import CLIPEncoderLayer

from modules.interfaces import Family

UNET, VAE = "unet", "vae"


def layers_of(family: Family) -> dict[str, list[nn.Module]]:
    """Every part's layers, in the order in which its forward computes them.

    "unet": each residual block, and each block of each transformer. A text encoder's: its encoder
    layers. "vae": the residual blocks and the attention of the decoder; the encoder is never
    trained.
    """
    encoders: dict[str, list[nn.Module]] = {
        name: [module for module in encoder.modules() if isinstance(module, CLIPEncoderLayer)]
        for name, encoder in family.text_encoders.items()
    }
    return {
        UNET: list(_layers(family.unet)),
        **encoders,
        VAE: list(_layers(family.vae.get_submodule("decoder"))),
    }


def _layers(network: nn.Module) -> Iterator[nn.Module]:
    """The layers of a UNet, or of half an autoencoder: way down, middle, way up."""
    blocks = dict(network.named_children())
    for name in ("down_blocks", "mid_block", "up_blocks"):
        if name == "mid_block":
            yield from _interleaved(blocks[name])
        elif name in blocks:
            for block in blocks[name].children():
                yield from _interleaved(block)


def _interleaved(block: nn.Module) -> Iterator[nn.Module]:
    """A residual block, an attention, a residual block …: not as they are listed in the block."""
    own = dict(block.named_children())
    attentions = own["attentions"].children() if "attentions" in own else ()
    for residual, attention in zip_longest(own["resnets"].children(), attentions):
        if residual is not None:
            yield residual
        if attention is not None:
            # A transformer's own norm and projections are computed between its blocks' neighbors.
            inner = dict(attention.named_children()).get("transformer_blocks")
            yield from [attention] if inner is None else inner.children()
