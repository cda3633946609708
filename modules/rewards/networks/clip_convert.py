"""CLIP's two towers in a file: their sizes, and which of its tensors each of ours is.

Known are the layouts of transformers and of OpenCLIP, which is OpenAI's too; whatever stands before
the names. Everything but the number of heads and the activation follows from shapes.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from torch import Size
from transformers import CLIPTextConfig, CLIPVisionConfig

from modules.formats.original.open_clip import open_clip_recipes
from modules.formats.original.recipe import Recipe

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
# OpenAI's networks, B/32 to L/14, give so many numbers, and have a quick approximation of GELU.
# OpenCLIP's of these sizes cannot be told from them by their weights, and are rare as rewards.
_QUICK_WIDTHS = (512, 768)
_END = 49407  # of a text, in CLIP's vocabulary


@dataclass(frozen=True)
class Found:
    """Where a tower is in a file. prefix: what stands before all of its names."""

    layout: Layout
    prefix: str


Shapes = Mapping[str, Size]
Told = Mapping[str, object]
"""A tower's part of config.json, or nothing."""


def find_tower(names: Iterable[str], tower: Tower) -> Found | None:
    """Where a tower is among a file's names; None where it is not."""
    listed = list(names)
    for (layout, which), mark in _MARKS.items():
        if which != tower:
            continue
        for name in listed:
            if name == mark or name.endswith("." + mark):
                return Found(layout, name.removesuffix(mark))
    return None


def recipes(found: Found, tower: Tower, ours: Iterable[str]) -> list[Recipe]:
    """Which of the file's tensors each of ours is made of."""
    if found.layout == "transformers":
        return [Recipe(found.prefix + name, (name,), "same") for name in ours]
    if tower == "text":
        return open_clip_recipes(ours, found.prefix)
    return [*_open_clip_vision(list(ours), found.prefix)]


def vision_config(found: Found, shapes: Shapes, told: Told) -> CLIPVisionConfig:
    """What the vision tower in a file is like. told: what a config beside it says, if it does."""
    layers = _layers(found, "vision", shapes)
    width, _, patch, _ = shapes[_named(found, "vision_model.embeddings.patch_embedding.weight")]
    places = shapes[_named(found, "vision_model.embeddings.position_embedding.weight")][0]
    projection = shapes[_named(found, _VISION_PROJECTION)]
    is_turned = found.layout == "open_clip"
    return CLIPVisionConfig(
        hidden_size=width,
        intermediate_size=shapes[_first_layer(found, "vision")][0],
        num_hidden_layers=layers,
        num_attention_heads=_number(told, "num_attention_heads")
        or _VISION_HEADS.get(width, max(1, width // _HEAD_WIDTH)),
        image_size=patch * math.isqrt(places - 1),
        patch_size=patch,
        projection_dim=projection[1 if is_turned else 0],
        hidden_act=_activation(told, projection[1 if is_turned else 0]),
    )


def text_config(found: Found, shapes: Shapes, told: Told) -> CLIPTextConfig:
    """What the text tower in a file is like. told: what a config beside it says, if it does."""
    words, width = shapes[_named(found, "text_model.embeddings.token_embedding.weight")]
    places = shapes[_named(found, "text_model.embeddings.position_embedding.weight")][0]
    projection = shapes[_named(found, "text_projection.weight")]
    is_turned = found.layout == "open_clip"
    size = projection[1 if is_turned else 0]
    return CLIPTextConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=shapes[_first_layer(found, "text")][0],
        num_hidden_layers=_layers(found, "text", shapes),
        num_attention_heads=_number(told, "num_attention_heads") or max(1, width // _HEAD_WIDTH),
        max_position_embeddings=places,
        projection_dim=size,
        hidden_act=_activation(told, size),
        eos_token_id=_number(told, "eos_token_id") or _END,
    )


def _activation(told: Told, projection: int) -> str:
    if told:  # what transformers' configs leave out is OpenAI's
        return str(told.get("hidden_act", "quick_gelu"))
    return "quick_gelu" if projection in _QUICK_WIDTHS else "gelu"


def _number(told: Told, key: str) -> int:
    value = told.get(key)
    return value if isinstance(value, int) else 0


def _named(found: Found, ours: str) -> str:
    """The file's name for one of our tensors that has one of its own."""
    if found.layout == "transformers":
        return found.prefix + ours
    if ours in _VISION_TOP:
        return found.prefix + _VISION_TOP[ours]
    if ours == _VISION_PROJECTION:
        return f"{found.prefix}visual.proj"
    return open_clip_recipes([ours], found.prefix)[0].original


def _first_layer(found: Found, tower: Tower) -> str:
    """The name of the first layer's widening matrix."""
    ours = "text_model.encoder.layers.0.mlp.fc1.weight"
    if found.layout == "transformers":
        return found.prefix + (ours if tower == "text" else ours.replace(_TEXT, _VISION))
    inner = "visual." if tower == "vision" else ""
    return open_clip_recipes([ours], found.prefix + inner)[0].original


def _layers(found: Found, tower: Tower, shapes: Shapes) -> int:
    before, behind = _first_layer(found, tower).split(".0.", 1)
    pattern = re.compile(re.escape(before) + r"\.(\d+)\." + re.escape(behind))
    return sum(pattern.fullmatch(name) is not None for name in shapes)


def _open_clip_vision(ours: list[str], prefix: str) -> Iterable[Recipe]:
    """OpenCLIP's vision tower; its layers are those of the text tower, under other names."""
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
