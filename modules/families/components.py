"""The parts of a Stable Diffusion model, out of a diffusers folder or a single file."""

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
from torch import Tensor, nn
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
)

from modules.families.spec import EncoderSpec, FamilySpec
from modules.formats.component_configs import MODELS, read_config
from modules.formats.component_shapes import canonical_name
from modules.formats.original.layout import (
    TEXT_LEVEL,
    Component,
    MissingTensorsError,
    read_component,
    recipes,
)
from modules.formats.original.vae_files import vae_recipes
from modules.formats.tensor_source import open_tensors
from onetrainer.config.model import Base
from onetrainer.errors import UserError
from onetrainer.model_files import ModelFile, weight_files

DIFFUSERS_WEIGHTS, TRANSFORMERS_WEIGHTS = "diffusion_pytorch_model", "model"
TOKENIZER = MODELS / "sd15" / "tokenizer"  # one vocabulary for all families

Encoder = CLIPTextModel | CLIPTextModelWithProjection
Part = TypeVar("Part", bound=nn.Module)


@dataclass(frozen=True)
class Parts:
    """The networks of a model; encoders by component."""

    unet: UNet2DConditionModel
    vae: AutoencoderKL
    encoders: Mapping[Component, Encoder]


def load_parts(
    spec: FamilySpec,
    model: ModelFile,
    home: Path,
    *,
    vae: str,
    compute_dtype: torch.dtype,
    device: torch.device,
) -> Parts:
    """The networks: the VAE in float32, the others in compute_dtype.

    home: the folder with the components' configs. vae: another VAE's file or folder, or "".
    """
    match model.layout:
        case "folder":
            return _from_folder(spec, home, vae=vae, compute_dtype=compute_dtype)
        case "single-file":
            empty = empty_parts(spec, home, unet_channels=model.unet_channels)
            return _from_file(
                spec, model.path, empty, home, vae=vae, compute_dtype=compute_dtype, device=device
            )


def empty_parts(spec: FamilySpec, configs: Path, *, unet_channels: int = 0) -> Parts:
    """The networks of configs without weights, on the meta device.

    unet_channels: what the UNet reads, if that is not what its config says.
    """
    unet = dict(read_config(configs / "unet" / "config.json"))
    if unet_channels:
        unet["in_channels"] = unet_channels
    with init_empty_weights():  # shapes alone: filling them twice would cost time and memory
        return Parts(
            UNet2DConditionModel.from_config(unet),
            AutoencoderKL.from_config(read_config(configs / "vae" / "config.json")),
            {
                encoder.component: _class_of(encoder)(
                    CLIPTextConfig(**read_config(configs / encoder.component / "config.json"))
                )
                for encoder in spec.encoders
            },
        )


def load_tokenizer(home: Path) -> CLIPTokenizer:
    """The tokenizer of a model's folder; the common one if it has the same words, or none.

    SD 2 and SDXL call "!" their padding, and their tokenizers then take every "!" in a caption for
    padding too; the common one does not.
    """
    common: CLIPTokenizer = CLIPTokenizer.from_pretrained(TOKENIZER, local_files_only=True)
    folder = home / "tokenizer"
    if not (folder / "vocab.json").is_file() and not (folder / "tokenizer.json").is_file():
        return common
    own: CLIPTokenizer = CLIPTokenizer.from_pretrained(folder, local_files_only=True)
    return common if own.get_vocab() == common.get_vocab() else own


def _from_folder(spec: FamilySpec, folder: Path, *, vae: str, compute_dtype: torch.dtype) -> Parts:
    # The libraries' own loaders, because they know the spellings of every older version.
    unet = folder / "unet"
    options = _offline(unet, DIFFUSERS_WEIGHTS) | {"torch_dtype": compute_dtype}
    encoders: dict[Component, Encoder] = {}
    for encoder in spec.encoders:
        home = folder / encoder.component
        settings = _offline(home, TRANSFORMERS_WEIGHTS) | {"dtype": compute_dtype}
        # Model and report, which transformers' types do not tell.
        loaded: Any = _class_of(encoder).from_pretrained(home, **settings)
        encoders[encoder.component] = _checked(home, loaded)
    return Parts(
        _checked(unet, UNet2DConditionModel.from_pretrained(unet, **options)),
        load_vae(Path(vae), spec.base, folder) if vae else _vae_of_folder(folder / "vae"),
        encoders,
    )


def _from_file(
    spec: FamilySpec,
    path: Path,
    empty: Parts,
    home: Path,
    *,
    vae: str,
    compute_dtype: torch.dtype,
    device: torch.device,
) -> Parts:
    """Tensors that no part has (position ids, an EMA's copies) are left alone."""
    _fill(empty.unet, path, spec, "unet", compute_dtype, device)
    for component, encoder in empty.encoders.items():
        _fill(encoder, path, spec, component, compute_dtype, device)
    if vae:
        return Parts(empty.unet, load_vae(Path(vae), spec.base, home), empty.encoders)
    _fill(empty.vae, path, spec, "vae", torch.float32, device)
    return empty


def _fill(
    model: nn.Module,
    path: Path,
    spec: FamilySpec,
    component: Component,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    """Gives an empty model the weights of a file, tensor by tensor straight to the device."""
    shapes = canonical(model, component)
    try:
        with open_tensors(path) as reader:
            state = read_component(
                reader, recipes(spec.base, component, shapes), shapes, dtype=dtype, device=device
            )
    except MissingTensorsError as error:
        raise _missing_error(path, component, error.names) from error
    own = model.state_dict().keys()
    fitting = {
        name if name in own else name.removeprefix(TEXT_LEVEL): t for name, t in state.items()
    }
    model.load_state_dict(fitting, assign=True)


def canonical(model: nn.Module, component: Component) -> dict[str, torch.Size]:
    """The shapes of a model's tensors, by names with text encoders' `text_model.` level."""
    state: Mapping[str, Tensor] = model.state_dict()
    return {canonical_name(component, name): tensor.shape for name, tensor in state.items()}


def _class_of(encoder: EncoderSpec) -> type[CLIPTextModel] | type[CLIPTextModelWithProjection]:
    return CLIPTextModelWithProjection if encoder.has_projection else CLIPTextModel


def load_vae(path: Path, base: Base, home: Path) -> AutoencoderKL:
    """A VAE of its own, float32 on the CPU: a folder, a file in either spelling, a whole model.

    home: the folder whose vae/config.json tells how the model scales latents, which files do not.
    """
    if path.is_dir():
        return _vae_of_folder(path / "vae" if (path / "vae").is_dir() else path)
    with init_empty_weights():
        vae = AutoencoderKL.from_config(read_config(home / "vae" / "config.json"))
    shapes = canonical(vae, "vae")
    try:
        with open_tensors(path) as reader:
            state = read_component(
                reader,
                vae_recipes(base, shapes, reader.names),
                shapes,
                dtype=torch.float32,
                device=torch.device("cpu"),
            )
    except MissingTensorsError as error:
        raise _missing_error(path, "vae", error.names) from error
    vae.load_state_dict(state, assign=True)
    return vae


def _vae_of_folder(folder: Path) -> AutoencoderKL:
    options = _offline(folder, DIFFUSERS_WEIGHTS) | {"torch_dtype": torch.float32}
    return _checked(folder, AutoencoderKL.from_pretrained(folder, **options))


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
        "A complete model was expected",
        "Choose another file; this one was perhaps made for another kind of model",
    )
