"""Names of the VAE's tensors in the original layout, from ours.

Source: the model definitions of CompVis/stable-diffusion.
"""

import re

ATTENTION = {
    "group_norm": "norm",
    "to_q": "q",
    "to_k": "k",
    "to_v": "v",
    "to_out.0": "proj_out",
}
FORMER_ATTENTION = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
LEVELS = 4


def vae_name(ours: str) -> str:
    """Return the original's name of a tensor, without its prefix."""
    name = ours.replace("conv_shortcut", "nin_shortcut").replace("conv_norm_out", "norm_out")
    for inner, original in ATTENTION.items():
        name = name.replace(f"mid_block.attentions.0.{inner}.", f"mid.attn_1.{original}.")
    name = re.sub(r"mid_block\.resnets\.(\d)", lambda m: f"mid.block_{int(m[1]) + 1}", name)
    name = re.sub(r"down_blocks\.(\d)\.resnets\.", r"down.\1.block.", name)
    name = re.sub(r"down_blocks\.(\d)\.downsamplers\.0\.", r"down.\1.downsample.", name)
    # The original layout counts the decoder's levels from the image's side.
    name = re.sub(r"up_blocks\.(\d)", lambda m: f"up.{LEVELS - 1 - int(m[1])}", name)
    return name.replace(".resnets.", ".block.").replace("upsamplers.0.", "upsample.")


def is_attention_matrix(ours: str) -> bool:
    """Return whether it is a linear layer here and a 1x1 convolution in the original layout."""
    return "mid_block.attentions.0.to_" in ours and ours.endswith(".weight")


def modern_vae_name(stored: str) -> str:
    """Return our name of a tensor from a diffusers folder of 2022."""
    for former, ours in FORMER_ATTENTION.items():
        stored = stored.replace(
            f"mid_block.attentions.0.{former}.", f"mid_block.attentions.0.{ours}."
        )
    return stored
