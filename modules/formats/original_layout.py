"""Stable Diffusion 1.x in the layout of its first release: one file, other names.

Each name is worked out from ours (those of diffusers and transformers), so one rule serves reading
and writing, models of every width and the tests' tiny ones.
Source: the model definitions of CompVis/stable-diffusion; blocks hold two resnets, as in all of
Stable Diffusion.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from torch import Size, Tensor

Component = Literal["unet", "vae", "text_encoder"]

PREFIXES: Mapping[Component, str] = {
    "unet": "model.diffusion_model.",
    "vae": "first_stage_model.",
    "text_encoder": "cond_stage_model.transformer.",
}
TEXT_LEVEL = "text_model."  # transformers since 5.6 and some old files leave this level out
UNET_TOP = {
    "conv_in": "input_blocks.0.0",
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
}
UNET_RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}
VAE_ATTENTION = {
    "group_norm": "norm",
    "to_q": "q",
    "to_k": "k",
    "to_v": "v",
    "to_out.0": "proj_out",
}
VAE_LEVELS = 4


class MissingTensorsError(Exception):
    """A file lacks tensors of a component, or has them in other shapes; `names` as in the file."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"{len(names)} tensors missing or misshapen, first {names[0]}")
        self.names = names


def original_names(component: Component, ours: Iterable[str]) -> dict[str, str]:
    """Our name of each of a component's tensors -> its full name in the original layout."""
    names = set(ours)
    prefix = PREFIXES[component]
    match component:
        case "unet":
            return {name: prefix + _unet_name(name, names) for name in names}
        case "vae":
            return {name: prefix + _vae_name(name) for name in names}
        case "text_encoder":
            plain = (name.removeprefix(TEXT_LEVEL) for name in names)
            return {
                name: prefix + TEXT_LEVEL + inner for name, inner in zip(names, plain, strict=True)
            }


def to_original(component: Component, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A component's state in the original layout; tensors are shared, not copied."""
    names = original_names(component, state)
    return {names[ours]: _to_shape(ours, tensor) for ours, tensor in sorted(state.items())}


def find_originals(
    component: Component, shapes: Mapping[str, Size], present: Mapping[str, Size]
) -> dict[str, str]:
    """Our name of each tensor -> the name it has in a file.

    shapes: of our tensors. present: of every tensor in the file.
    Raises MissingTensorsError. Old files have no `text_model.` level; both spellings are found.
    """
    found, missing = {}, []
    for ours, original in sorted(original_names(component, shapes).items()):
        spellings = (original, original.replace(TEXT_LEVEL, "", 1))
        name = next((name for name in spellings if name in present), None)
        if name is None or _squeezed(present[name]) != _squeezed(shapes[ours]):
            missing.append(original)
        else:
            found[ours] = name
    if missing:
        raise MissingTensorsError(missing)
    return found


def _unet_name(ours: str, names: set[str]) -> str:
    module, leaf = ours.rsplit(".", 1)
    if module in UNET_TOP:
        return f"{UNET_TOP[module]}.{leaf}"
    place, rest = _unet_place(ours, names)
    for inner, original in UNET_RESNET.items():
        if rest == f"{inner}.{leaf}":
            return f"{place}.{original}.{leaf}"
    return f"{place}.{rest}"  # attention blocks have the same names inside


def _unet_place(ours: str, names: set[str]) -> tuple[str, str]:
    """The numbered block a tensor lies in, and its name inside that block."""
    if found := re.match(r"mid_block\.(resnets|attentions)\.(\d)\.(.+)", ours):
        kind, index, rest = found.groups()
        return f"middle_block.{1 if kind == 'attentions' else 2 * int(index)}", rest
    found = re.match(r"(down|up)_blocks\.(\d)\.(\w+)\.(\d)\.(.+)", ours)
    if found is None:
        raise KeyError(ours)
    side, block, kind, index, rest = found.groups()
    # Three places a block: two resnets and a downsampler on the way down, three resnets up.
    start = 3 * int(block)
    match side, kind:
        case "down", "downsamplers":
            return f"input_blocks.{start + 3}.0", rest.replace("conv", "op", 1)
        case "up", "upsamplers":
            has_attention = any(n.startswith(f"up_blocks.{block}.attentions.") for n in names)
            return f"output_blocks.{start + 2}.{2 if has_attention else 1}", rest
        case "down", _:
            place = f"input_blocks.{start + int(index) + 1}"
        case _:
            place = f"output_blocks.{start + int(index)}"
    return f"{place}.{1 if kind == 'attentions' else 0}", rest


def _vae_name(ours: str) -> str:
    name = ours.replace("conv_shortcut", "nin_shortcut").replace("conv_norm_out", "norm_out")
    for inner, original in VAE_ATTENTION.items():
        name = name.replace(f"mid_block.attentions.0.{inner}.", f"mid.attn_1.{original}.")
    name = re.sub(r"mid_block\.resnets\.(\d)", lambda m: f"mid.block_{int(m[1]) + 1}", name)
    name = re.sub(r"down_blocks\.(\d)\.resnets\.", r"down.\1.block.", name)
    name = re.sub(r"down_blocks\.(\d)\.downsamplers\.0\.", r"down.\1.downsample.", name)
    # The decoder's levels are counted from the picture's side in the original layout.
    name = re.sub(r"up_blocks\.(\d)", lambda m: f"up.{VAE_LEVELS - 1 - int(m[1])}", name)
    return name.replace(".resnets.", ".block.").replace("upsamplers.0.", "upsample.")


def _to_shape(ours: str, tensor: Tensor) -> Tensor:
    """The VAE's attention is linear with us and a 1x1 convolution in the original layout."""
    is_weight = tensor.ndim == 2  # (out, in)
    if "mid_block.attentions.0.to_" in ours and is_weight:
        return tensor[:, :, None, None]
    return tensor


def _squeezed(shape: Size) -> tuple[int, ...]:
    """A shape without the trailing ones by which a 1x1 convolution differs from a linear layer."""
    sides = tuple(shape)
    while len(sides) > 1 and sides[-1] == 1:
        sides = sides[:-1]
    return sides
