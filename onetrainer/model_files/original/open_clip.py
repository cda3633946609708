"""Names of OpenCLIP's text encoders in their own layout, from ours.

Source: the model definition of mlfoundations/open_clip.
"""

import re
from collections.abc import Iterable

from onetrainer.model_files.original.recipe import Recipe

TOP = {
    "text_model.embeddings.token_embedding.weight": "token_embedding.weight",
    "text_model.embeddings.position_embedding.weight": "positional_embedding",
    "text_model.final_layer_norm.weight": "ln_final.weight",
    "text_model.final_layer_norm.bias": "ln_final.bias",
}
# OpenCLIP multiplies the pooled vector by this matrix from the right; our linear layer multiplies
# by its weight's transpose. Square in the published models, so a mistake raises no error.
PROJECTION, ORIGINAL_PROJECTION = "text_projection.weight", "text_projection"
LAYER = {
    "layer_norm1": "ln_1",
    "layer_norm2": "ln_2",
    "self_attn.out_proj": "attn.out_proj",
    "mlp.fc1": "mlp.c_fc",
    "mlp.fc2": "mlp.c_proj",
}
FUSED = ("q_proj", "k_proj", "v_proj")


def open_clip_recipes(ours: Iterable[str], prefix: str) -> list[Recipe]:
    """Return the recipe of each tensor of an encoder in OpenCLIP's layout, with prefixed names."""
    return [match for name in ours if (match := _recipe(name, prefix)) is not None]


def _recipe(ours: str, prefix: str) -> Recipe | None:
    """Return the recipe that begins with this tensor; None if another tensor's includes it."""
    if ours == PROJECTION:
        return Recipe(prefix + ORIGINAL_PROJECTION, (ours,), "transposed")
    if ours in TOP:
        return Recipe(prefix + TOP[ours], (ours,), "same")
    match = re.fullmatch(r"(text_model\.encoder\.layers\.(\d+)\.)(.+)\.(weight|bias)", ours)
    if match is None:
        raise KeyError(ours)
    layer, number, inner, leaf = match.groups()
    block = f"{prefix}transformer.resblocks.{number}."
    if inner == f"self_attn.{FUSED[0]}":
        projections = tuple(f"{layer}self_attn.{name}.{leaf}" for name in FUSED)
        return Recipe(f"{block}attn.in_proj_{leaf}", projections, "fused")
    if inner.startswith("self_attn.") and inner.removeprefix("self_attn.") in FUSED:
        return None
    return Recipe(f"{block}{LAYER[inner]}.{leaf}", (ours,), "same")
