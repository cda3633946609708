"""Sizes of CLIP's two towers in a file, and the mapping of its tensors to transformers' names.

Supports the layouts of transformers and of OpenCLIP, which OpenAI uses too, with any prefix.
Everything but the number of heads and the activation follows from shapes.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from torch import Size
from transformers import CLIPTextConfig, CLIPVisionConfig

from onetrainer.model_files.original.open_clip import open_clip_recipes
from onetrainer.model_files.original.recipe import Recipe

Tower = Literal["vision", "text"]
Layout = Literal["transformers", "open_clip"]

_MARKS: Mapping[tuple[Layout, Tower], str] = {
    ("transformers", "vision"): "vision_model.embeddings.class_embedding",
    ("transformers", "text"): "text_model.embeddings.token_embedding.weight",
    ("open_clip", "vision"): "visual.class_embedding",
    ("open_clip", "text"): "token_embedding.weight",
}
_VISION_TOP: Mapping[str, str] = {
    "vision_model.embeddings.class_embedding": "visual.class_embedding",
    "vision_model.embeddings.patch_embedding.weight": "visual.conv1.weight",
    "vision_model.embeddings.position_embedding.weight": "visual.positional_embedding",
    "vision_model.pre_layrnorm.weight": "visual.ln_pre.weight",
    "vision_model.pre_layrnorm.bias": "visual.ln_pre.bias",
    "vision_model.post_layernorm.weight": "visual.ln_post.weight",
    "vision_model.post_layernorm.bias": "visual.ln_post.bias",
}
_VISION_PROJECTION, _VISION, _TEXT = "visual_projection.weight", "vision_model.", "text_model."
# Vision towers by width: OpenAI's and OpenCLIP's published ones; others have heads 64 wide.
_VISION_HEADS: Mapping[int, int] = {768: 12, 1024: 16, 1280: 16, 1408: 16, 1664: 16}
_HEAD_WIDTH = 64
# Embedding widths of OpenAI's networks, B/32 to L/14, which use a fast approximation of GELU.
# OpenCLIP's of these sizes cannot be distinguished by their weights, and are rare as rewards.
_QUICK_WIDTHS = (512, 768)
_END = 49407  # the end-of-text token of CLIP's vocabulary


@dataclass(frozen=True)
class TowerLocation:
    """The location of a tower in a file. prefix: that of all of its tensors' names."""

    layout: Layout
    prefix: str


Shapes = Mapping[str, Size]
TowerConfig = Mapping[str, object]
"""A tower's section of config.json, or empty."""


def find_tower(names: Iterable[str], tower: Tower) -> TowerLocation | None:
    """Find a tower among a file's tensor names; None if it has none."""
    listed = list(names)
    for (layout, which), mark in _MARKS.items():
        if which != tower:
            continue
        for name in listed:
            if name == mark or name.endswith("." + mark):
                return TowerLocation(layout, name.removesuffix(mark))
    return None


def recipes(location: TowerLocation, tower: Tower, ours: Iterable[str]) -> list[Recipe]:
    """Map the file's tensors to ours."""
    if location.layout == "transformers":
        return [Recipe(location.prefix + name, (name,), "same") for name in ours]
    if tower == "text":
        return open_clip_recipes(ours, location.prefix)
    return [*_open_clip_vision(list(ours), location.prefix)]


def vision_config(location: TowerLocation, shapes: Shapes, config: TowerConfig) -> CLIPVisionConfig:
    """Derive the config of a file's vision tower from its shapes and a config.json, if any."""
    layers = _layers(location, "vision", shapes)
    patches = "vision_model.embeddings.patch_embedding.weight"
    width, _, patch, _ = shapes[_file_name(location, patches)]
    positions_name = "vision_model.embeddings.position_embedding.weight"
    positions = shapes[_file_name(location, positions_name)][0]
    projection = shapes[_file_name(location, _VISION_PROJECTION)]
    size = projection[1 if location.layout == "open_clip" else 0]
    return CLIPVisionConfig(
        hidden_size=width,
        intermediate_size=shapes[_first_layer(location, "vision")][0],
        num_hidden_layers=layers,
        num_attention_heads=_number(config, "num_attention_heads")
        or _VISION_HEADS.get(width, max(1, width // _HEAD_WIDTH)),
        image_size=patch * math.isqrt(positions - 1),
        patch_size=patch,
        projection_dim=size,
        hidden_act=_activation(config, size),
    )


def text_config(location: TowerLocation, shapes: Shapes, config: TowerConfig) -> CLIPTextConfig:
    """Derive the config of a file's text tower from its shapes and a config.json, if any."""
    tokens_name = "text_model.embeddings.token_embedding.weight"
    tokens, width = shapes[_file_name(location, tokens_name)]
    positions_name = "text_model.embeddings.position_embedding.weight"
    positions = shapes[_file_name(location, positions_name)][0]
    projection = shapes[_file_name(location, "text_projection.weight")]
    size = projection[1 if location.layout == "open_clip" else 0]
    return CLIPTextConfig(
        vocab_size=tokens,
        hidden_size=width,
        intermediate_size=shapes[_first_layer(location, "text")][0],
        num_hidden_layers=_layers(location, "text", shapes),
        num_attention_heads=_number(config, "num_attention_heads") or max(1, width // _HEAD_WIDTH),
        max_position_embeddings=positions,
        projection_dim=size,
        hidden_act=_activation(config, size),
        eos_token_id=_number(config, "eos_token_id") or _END,
    )


def _activation(config: TowerConfig, projection: int) -> str:
    if config:  # the default of transformers' configs is OpenAI's
        return str(config.get("hidden_act", "quick_gelu"))
    return "quick_gelu" if projection in _QUICK_WIDTHS else "gelu"


def _number(config: TowerConfig, key: str) -> int:
    value = config.get(key)
    return value if isinstance(value, int) else 0


def _file_name(location: TowerLocation, ours: str) -> str:
    """Return the file's name of one of our tensors that is stored as one."""
    if location.layout == "transformers":
        return location.prefix + ours
    if ours in _VISION_TOP:
        return location.prefix + _VISION_TOP[ours]
    if ours == _VISION_PROJECTION:
        return f"{location.prefix}visual.proj"
    return open_clip_recipes([ours], location.prefix)[0].original


def _first_layer(location: TowerLocation, tower: Tower) -> str:
    """Return the name of the first layer's up projection."""
    ours = "text_model.encoder.layers.0.mlp.fc1.weight"
    if location.layout == "transformers":
        return location.prefix + (ours if tower == "text" else ours.replace(_TEXT, _VISION))
    inner = "visual." if tower == "vision" else ""
    return open_clip_recipes([ours], location.prefix + inner)[0].original


def _layers(location: TowerLocation, tower: Tower, shapes: Shapes) -> int:
    before, after = _first_layer(location, tower).split(".0.", 1)
    pattern = re.compile(re.escape(before) + r"\.(\d+)\." + re.escape(after))
    return sum(pattern.fullmatch(name) is not None for name in shapes)


def _open_clip_vision(ours: list[str], prefix: str) -> Iterable[Recipe]:
    """Map OpenCLIP's vision tower; its layers are those of the text tower, under other names."""
    layers = []
    for name in ours:
        if name == _VISION_PROJECTION:
            yield Recipe(f"{prefix}visual.proj", (name,), "transposed")
        elif name in _VISION_TOP:
            yield Recipe(prefix + _VISION_TOP[name], (name,), "same")
        else:
            layers.append(name.replace(_VISION, _TEXT, 1))
    for recipe in open_clip_recipes(layers, f"{prefix}visual."):
        yield replace(recipe, ours=tuple(name.replace(_TEXT, _VISION, 1) for name in recipe.ours))
