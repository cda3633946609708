"""Files that are nothing but a header: names and shapes of models of any size, without weights."""

import json
import math
import struct
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from modules.formats.files.component_configs import MODELS
from onetrainer.families.registry import family_spec
from onetrainer.model_files.wholeness import whole_file

Shapes = Mapping[str, tuple[int, ...]]
WIDTHS = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "F8_E4M3": 1}


def write(path: Path, shapes: Shapes, *, dtype: str = "F16", metadata=None, dtypes=None) -> Path:
    """A safetensors file, nearly all zeros, which takes hardly any room on the disk.

    dtypes: of those tensors that have another one.
    """
    header, end, begins = {"__metadata__": metadata or {"format": "pt"}}, 0, []
    for name, shape in shapes.items():
        own = (dtypes or {}).get(name, dtype)
        start, end = end, end + WIDTHS[own] * math.prod(shape)
        begins += [start] if end > start else []
        header[name] = {"dtype": own, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
        for begin in begins:  # no trained tensor is zero
            file.seek(8 + len(text) + begin)
            file.write(b"\1")
    return path


@cache
def full_size(base: str) -> dict[str, tuple[int, ...]]:
    """Every tensor of the published model's single file, by its name there."""
    return whole_file(family_spec(base))


@cache
def component_state(base: str, component: str):
    """A published model's component on the meta device, under its canonical names."""
    config = json.loads((MODELS / base / component / "config.json").read_text())
    with torch.device("meta"):
        match component:
            case "unet":
                return UNet2DConditionModel.from_config(config).state_dict()
            case "vae":
                return AutoencoderKL.from_config(config).state_dict()
        if component == "text_encoder_2":
            return CLIPTextModelWithProjection(CLIPTextConfig(**config)).state_dict()
        state = CLIPTextModel(CLIPTextConfig(**config)).state_dict()
    return {f"text_model.{name.removeprefix('text_model.')}": t for name, t in state.items()}


def shapes_of(base: str, component: str) -> dict[str, tuple[int, ...]]:
    """A published model's component in diffusers' spelling."""
    return {name: tuple(t.shape) for name, t in component_state(base, component).items()}
