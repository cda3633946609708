"""The parts of a Stable Diffusion model, out of a diffusers folder or a single file."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import init_empty_weights

# The modules themselves: `from diffusers import …` would import every pipeline on top.
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from safetensors import safe_open
from torch import Size, nn
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from modules.formats.original_layout import Component, MissingTensorsError, find_originals
from onetrainer.errors import UserError
from onetrainer.model_file import weight_files
from onetrainer.safetensors_header import read_header

DIFFUSERS_WEIGHTS, TRANSFORMERS_WEIGHTS = "diffusion_pytorch_model", "model"

Part = TypeVar("Part", bound=nn.Module)


@dataclass(frozen=True)
class Parts:
    """The networks of a model with one text encoder."""

    unet: UNet2DConditionModel
    vae: AutoencoderKL
    text_encoder: CLIPTextModel


def from_folder(folder: Path, compute_dtype: torch.dtype) -> Parts:
    """The parts of a diffusers folder, on the CPU; the VAE in float32, the others as asked."""
    # The libraries' own loaders, because they know the spellings of every older version.
    unet, vae, encoder = (folder / name for name in ("unet", "vae", "text_encoder"))
    unet_options = _offline(unet, DIFFUSERS_WEIGHTS) | {"torch_dtype": compute_dtype}
    vae_options = _offline(vae, DIFFUSERS_WEIGHTS) | {"torch_dtype": torch.float32}
    encoder_options = _offline(encoder, TRANSFORMERS_WEIGHTS) | {"dtype": compute_dtype}
    # Model and report, which transformers' types do not tell.
    loaded_encoder: Any = CLIPTextModel.from_pretrained(encoder, **encoder_options)
    return Parts(
        _checked(unet, UNet2DConditionModel.from_pretrained(unet, **unet_options)),
        _checked(vae, AutoencoderKL.from_pretrained(vae, **vae_options)),
        _checked(encoder, loaded_encoder),
    )


def from_single_file(
    path: Path, configs: Path, compute_dtype: torch.dtype, device: torch.device
) -> Parts:
    """The parts of a file in the original layout; the VAE in float32, the others in compute_dtype.

    configs: a folder with the configs of unet, vae and text_encoder. Tensors that no part has
    (position ids, an EMA's copies) are left alone.
    """
    unet, vae, encoder = (
        read_config(configs / name / "config.json") for name in ("unet", "vae", "text_encoder")
    )
    with init_empty_weights():  # shapes alone: filling them twice would cost time and memory
        parts = Parts(
            UNet2DConditionModel.from_config(unet),
            AutoencoderKL.from_config(vae),
            CLIPTextModel(CLIPTextConfig(**encoder)),
        )
    _fill(parts.unet, path, "unet", compute_dtype, device)
    _fill(parts.vae, path, "vae", torch.float32, device)
    _fill(parts.text_encoder, path, "text_encoder", compute_dtype, device)
    return parts


def load_tokenizer(folder: Path) -> CLIPTokenizer:
    """The tokenizer of a folder laid out as diffusers does."""
    tokenizer: CLIPTokenizer = CLIPTokenizer.from_pretrained(
        folder / "tokenizer", local_files_only=True
    )
    return tokenizer


def read_config(path: Path) -> Mapping[str, Any]:
    """A JSON object; raises UserError if the file is missing or damaged."""
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: this config cannot be read ({error})",
            "A JSON file was expected",
            "The model's folder was not downloaded completely; download it again",
        ) from error
    return config


def _fill(
    model: nn.Module, path: Path, component: Component, dtype: torch.dtype, device: torch.device
) -> None:
    """Gives an empty model the weights of a file, tensor by tensor straight to the device."""
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    present = {name: Size(entry.shape) for name, entry in read_header(path).items()}
    try:
        names = find_originals(component, shapes, present)
    except MissingTensorsError as error:
        raise _missing_error(path, component, error.names) from error
    with safe_open(path, framework="pt") as file:
        # copy: the file is only mapped into memory, and may be replaced while training goes on.
        state = {
            ours: file.get_tensor(name).to(device, dtype, copy=True).reshape(shapes[ours])
            for ours, name in names.items()
        }
    model.load_state_dict(state, assign=True)


def _offline(folder: Path, stem: str) -> dict[str, Any]:
    """What both libraries need to be told to read a folder's own safetensors and nothing else."""
    first = weight_files(folder, stem)[0].name
    variant = re.fullmatch(rf"{stem}(?:\.(\w+))?(?:-\d+-of-\d+)?\.safetensors", first)
    return {
        "variant": variant[1] if variant else None,
        "local_files_only": True,
        "use_safetensors": True,
        "output_loading_info": True,
    }


def _checked(folder: Path, loaded: tuple[Part, Mapping[str, Any]]) -> Part:
    """The model, unless weights were missing: the libraries would only log it and make them up."""
    model, report = loaded
    names = [str(name) for name in (*report["missing_keys"], *report["mismatched_keys"])]
    if names:
        raise _missing_error(folder, folder.name, names)
    return model


def _missing_error(path: Path, part: str, names: list[str]) -> UserError:
    return UserError(
        f"{path.name}: {len(names)} of the tensors of the {part.replace('_', ' ')} are missing or"
        f" have another shape, first {names[0]}",
        "A complete SD 1.5 model was expected",
        "Choose another file; this one was perhaps made for another kind of model",
    )
