"""Names of the UNet's tensors in the original layout, from ours.

Source: the model definitions of CompVis/stable-diffusion and Stability-AI/generative-models; every
level holds two resnets, as in all of Stable Diffusion.
"""

import re
from collections.abc import Iterable

TOP = {
    "conv_in": "input_blocks.0.0",
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
}
RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}
BLOCKS = 3  # per level: two resnets and a downsampler on the way down, three resnets on the way up


def unet_names(ours: Iterable[str]) -> dict[str, str]:
    """Return our name of each of a UNet's tensors -> the original's, without its prefix."""
    names = set(ours)
    return {name: _original(name, names) for name in names}


def _original(ours: str, names: set[str]) -> str:
    module, leaf = ours.rsplit(".", 1)
    if module in TOP:
        return f"{TOP[module]}.{leaf}"
    block, rest = _block(ours, names)
    inner = rest.removesuffix(f".{leaf}")
    return f"{block}.{RESNET.get(inner, inner)}.{leaf}"  # attentions have the same names inside


def layer_spelled_alike(layer: str) -> str:
    """Return a layer's name, of either layout and with dots or without, as one spelling of it."""
    bare = layer.replace(".", "_")
    if bare in _TOP_ALIKE:
        return _TOP_ALIKE[bare]
    try:
        # Which place an upsampler has depends on what is beside it, but there is only one.
        block, rest = _block(layer, set())
    except KeyError:
        return re.sub(r"(output_blocks_\d+)_[12]_conv$", r"\1_1_conv", bare)
    return f"{block}.{RESNET.get(rest, rest)}".replace(".", "_")


_TOP_ALIKE = {ours.replace(".", "_"): original.replace(".", "_") for ours, original in TOP.items()}


def _block(ours: str, names: set[str]) -> tuple[str, str]:
    """Return the numbered block of a tensor, and its name inside that block."""
    if match := re.match(r"mid_block[._](resnets|attentions)[._](\d)[._](.+)", ours):
        kind, index, rest = match.groups()
        return f"middle_block.{1 if kind == 'attentions' else 2 * int(index)}", rest
    match = re.match(r"(down|up)_blocks[._](\d)[._]([a-z]+)[._](\d)[._](.+)", ours)
    if match is None:
        raise KeyError(ours)
    side, block, kind, index, rest = match.groups()
    start = BLOCKS * int(block)
    match side, kind:
        case "down", "downsamplers":
            return f"input_blocks.{start + BLOCKS}.0", rest.replace("conv", "op", 1)
        case "up", "upsamplers":
            has_attention = any(n.startswith(f"up_blocks.{block}.attentions.") for n in names)
            return f"output_blocks.{start + BLOCKS - 1}.{2 if has_attention else 1}", rest
        case "down", _:
            original = f"input_blocks.{start + int(index) + 1}"
        case _:
            original = f"output_blocks.{start + int(index)}"
    return f"{original}.{1 if kind == 'attentions' else 0}", rest
