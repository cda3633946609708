"""Specifics of peft and diffusers in LoRA files: no alpha, other DoRA scales, other shapes."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from modules.formats.lora.lora_keys import PLAIN, AdapterTensors, rank_of, scale_of
from modules.formats.lora.lora_names import Layer
from onetrainer.errors import UserError
from onetrainer.families.registry import family_spec, folder_of
from onetrainer.model_files.adapter_keys import ALPHA, DORA, DOWN, MID, UP
from onetrainer.model_files.adapter_settings import alpha_of, settings_in


def diffusers_tensors(
    path: Path, base: str, layer: Layer, tensors: AdapterTensors, dtype: torch.dtype | None
) -> dict[str, Tensor]:
    """Return a layer's tensors by peft's names, alpha / rank multiplied into the up matrix.

    dtype: Of the file; None for the tensors' own.

    Raises:
        UserError: For tensors that the naming has no names for.
    """
    others = sorted(tensors.keys() - (PLAIN - {MID}) - {"diff_b"})
    if others or not {DOWN, UP} <= tensors.keys():
        raise UserError(
            f"{path.name}: diffusers' naming does not support {', '.join(others or tensors)}"
            f" ({layer.path})",
            "It supports only LoRA and DoRA",
            "Choose kohya's or ComfyUI's naming",
        )
    up = (tensors[UP].float() * scale_of(tensors)).to(dtype or tensors[UP].dtype)  # rounded once
    renamed = {
        "lora_A.weight": _reshape_projection(base, layer, tensors[DOWN]),
        "lora_B.weight": _reshape_projection(base, layer, up),
    }
    if "diff_b" in tensors:  # alpha is the rank in this naming, so that nothing scales it
        renamed["lora_B.bias"] = tensors["diff_b"].flatten()
    if DORA in tensors:
        if tensors[DORA].shape[0] != len(up):
            raise UserError(
                f"{path.name}: {layer.path} has DoRA scales of its inputs",
                "diffusers' naming supports only those of outputs",
                "Choose kohya's or ComfyUI's naming",
            )
        is_linear = renamed["lora_B.weight"].ndim == 2  # (out, rank)
        shape = (-1,) if is_linear else (1, -1, 1, 1)
        renamed["lora_magnitude_vector.weight"] = tensors[DORA].reshape(shape)
    return renamed


def _reshape_projection(base: str, layer: Layer, matrix: Tensor) -> Tensor:
    """Reshape projections around transformers: 1x1 convolutions in SD 1.x, linear layers otherwise.

    Programs that use the original layout have convolutions in SD 2.x, too.
    """
    if not layer.path.endswith(("proj_in", "proj_out")):
        return matrix
    kohya_path = matrix.flatten(1)
    return (
        kohya_path[:, :, None, None]
        if family_spec(base).has_convolution_projections
        else kohya_path
    )


def from_magnitude(scale: Tensor) -> Tensor:
    """Reshape a magnitude, (out,) or (1, out, 1, 1), to (out, 1) or (out, 1, 1, 1)."""
    return scale.reshape(-1, *[1] * max(scale.ndim - 1, 1))


def add_alphas(
    path: Path, layers: Mapping[Layer, dict[str, Tensor]], metadata: Mapping[str, str]
) -> None:
    """Add the alphas of peft's settings to layers without one. Raises UserError for damaged ones.

    path: Of the file, for messages.
    """
    settings = settings_in(path, metadata)
    for layer, tensors in layers.items() if settings else ():
        if ALPHA in tensors:
            continue
        alpha = alpha_of(settings, folder_of(layer.component), layer.path, rank_of(tensors))
        if alpha is not None:
            tensors[ALPHA] = torch.tensor(alpha)
