"""What peft and diffusers do otherwise in LoRA files: no alpha, other DoRA scales, other shapes."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from modules.formats.lora.lora_keys import PLAIN, Kinds, rank_of, scale_of
from modules.formats.lora.lora_names import DIFFUSERS_COMPONENTS, Layer
from onetrainer.config.run.model import Base
from onetrainer.errors import UserError
from onetrainer.model_files.adapter_keys import ALPHA, DORA, DOWN, MID, UP

METADATA = "lora_adapter_metadata"
"""diffusers' JSON of peft's settings; its alphas are needed to read a file, and are not written."""


def diffusers_tensors(
    path: Path, base: Base, layer: Layer, kinds: Kinds, dtype: torch.dtype | None
) -> dict[str, Tensor]:
    """A layer's tensors in peft's words, alpha / rank multiplied into the up matrix.

    dtype: of the file; None is the tensors' own. Raises UserError for what has no word there.
    """
    others = sorted(kinds.keys() - (PLAIN - {MID}))
    if others or not {DOWN, UP} <= kinds.keys():
        raise UserError(
            f"{path.name}: diffusers' naming has no words for {', '.join(others or kinds)}"
            f" ({layer.path})",
            "It holds LoRA and DoRA only",
            "Choose kohya's or ComfyUI's naming",
        )
    up = (kinds[UP].float() * scale_of(kinds)).to(dtype or kinds[UP].dtype)  # rounded once
    own = {
        "lora_A.weight": _as_diffusers_has_it(base, layer, kinds[DOWN]),
        "lora_B.weight": _as_diffusers_has_it(base, layer, up),
    }
    if DORA in kinds:
        _require_outputs(path, layer, kinds[DORA], len(up))
        is_linear = own["lora_B.weight"].ndim == 2  # (out, rank)
        shape = (-1,) if is_linear else (1, -1, 1, 1)
        own["lora_magnitude_vector.weight"] = kinds[DORA].reshape(shape)
    return own


def _as_diffusers_has_it(base: Base, layer: Layer, matrix: Tensor) -> Tensor:
    """Projections around transformers: 1x1 convolutions in SD 1.x, linear layers in the others.

    Programs that use the original layout have convolutions in SD 2.x, too.
    """
    if not layer.path.endswith(("proj_in", "proj_out")):
        return matrix
    kohya_path = matrix.flatten(1)
    return kohya_path[:, :, None, None] if base == "sd15" else kohya_path


def _require_outputs(path: Path, layer: Layer, scale: Tensor, outputs: int) -> None:
    if scale.shape[0] != outputs:
        raise UserError(
            f"{path.name}: {layer.path} has DoRA scales for its inputs",
            "diffusers' naming has words for those of outputs only",
            "Choose kohya's or ComfyUI's naming",
        )


def from_magnitude(scale: Tensor) -> Tensor:
    """(out,) of a linear layer as (out, 1), (1, out, 1, 1) of a convolution as (out, 1, 1, 1)."""
    return scale.reshape(-1, *[1] * max(scale.ndim - 1, 1))


def add_alphas(layers: Mapping[Layer, dict[str, Tensor]], metadata: Mapping[str, str]) -> None:
    """The alphas that peft's settings tell, to layers without one."""
    try:
        settings = json.loads(metadata.get(METADATA, "{}"))
    except ValueError:
        return
    if not isinstance(settings, dict):
        return
    for layer, kinds in layers.items():
        component, rank = DIFFUSERS_COMPONENTS[layer.component], rank_of(kinds)
        own = settings.get(f"{component}.lora_alpha", settings.get("lora_alpha"))
        pattern = settings.get(f"{component}.alpha_pattern", settings.get("alpha_pattern")) or {}
        alpha = next((value for path, value in pattern.items() if _fits(path, layer.path)), own)
        if alpha is None or rank is None or ALPHA in kinds:
            continue
        if settings.get(f"{component}.use_rslora", settings.get("use_rslora")):
            alpha *= math.sqrt(rank)  # its scale is alpha / sqrt(rank)
        kinds[ALPHA] = torch.tensor(float(alpha))


def _fits(pattern: str, path: str) -> bool:
    """Patterns of peft are ends of paths, which may leave out the text encoders' first level."""
    return f".{path}".endswith("." + pattern.removeprefix("^"))
