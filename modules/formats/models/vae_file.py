"""Writing of a separate VAE, as programs use it in place of a model's own."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from modules.formats.files.component_configs import Config
from modules.formats.files.files import (
    byte_count,
    require_space,
    write_safetensors,
)
from modules.formats.files.tensor_source import LazyTensor, cast_lazily
from modules.formats.models.whole_model import Tensors
from modules.formats.original.layout import to_original
from onetrainer.errors import UserError
from onetrainer.families.spec import ComponentSpec
from onetrainer.files.atomic import atomic_file, atomic_folder
from onetrainer.model_files.folders import DIFFUSERS_WEIGHTS
from onetrainer.model_files.original.layout import recipes

CONFIG = "config.json"
TORCH_FILE = {"format": "pt"}  # without it, some versions of diffusers refuse a file
SMALL_FILES = 1024**2  # a generous allowance for a config


def write_vae_file(
    path: Path,
    vae: ComponentSpec,
    tensors: Tensors,
    *,
    dtype: torch.dtype,
    metadata: Mapping[str, str],
) -> None:
    """Write one file in the original layout, whose names begin with "encoder." and "decoder.".

    tensors: By diffusers' names. The file is written completely or not at all.

    Raises:
        UserError: If the disk has too little space, or the dtype cannot hold a weight.
    """
    start = vae.prefix
    bare = [
        replace(recipe, original=recipe.original.removeprefix(start))
        for recipe in recipes(vae, tensors)
    ]
    state = to_original(bare, tensors)
    write_safetensors(path, _cast(state, dtype), metadata, hashes=True)


def write_vae_folder(path: Path, config: Config, tensors: Tensors, *, dtype: torch.dtype) -> None:
    """Write a folder for diffusers' AutoencoderKL, complete or not at all.

    Raises:
        UserError: As `write_vae_file`, and if the path holds something other than a VAE.
    """
    weights = _cast(tensors, dtype)
    if path.is_file() or (path.is_dir() and any(path.iterdir()) and not (path / CONFIG).is_file()):
        raise UserError(
            f"{path}: this is not a VAE",
            f"Expected an empty folder, or one with {CONFIG}",
            "Choose another name",
        )
    require_space(path, byte_count(weights) + SMALL_FILES)
    with atomic_folder(path) as folder:
        write_safetensors(folder / f"{DIFFUSERS_WEIGHTS}.safetensors", weights, TORCH_FILE)
        with atomic_file(folder / CONFIG) as file:
            text = json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
            file.write(text.encode("utf-8"))


def _cast(tensors: Tensors, dtype: torch.dtype) -> dict[str, LazyTensor]:
    return {name: cast_lazily(tensor, dtype, name=name) for name, tensor in tensors.items()}
