"""The parts of a Stable Diffusion model, out of a diffusers folder or a single file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from modules.formats.files.component_configs import MODELS, read_config
from modules.formats.files.tensor_source import TensorReader, open_tensors
from modules.formats.models.component_shapes import canonical_name
from modules.formats.original.layout import (
    TEXT_LEVEL,
    Component,
    MissingTensorsError,
    read_component,
    recipes,
)
from modules.formats.original.recipe import Recipe
from modules.formats.original.vae_files import vae_recipes
from onetrainer.config.run.model import Base
from onetrainer.errors import UserError
from onetrainer.model_files import ModelFile, weight_files
from onetrainer.model_files.folders import DIFFUSERS_WEIGHTS, TRANSFORMERS_WEIGHTS

TOKENIZER = MODELS / "sd15" / "tokenizer"  # one vocabulary for all families
VAE_DTYPE = torch.float32  # the VAEs of Stable Diffusion were trained in it

Encoder = CLIPTextModel | CLIPTextModelWithProjection


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
    dtypes: Mapping[Component, torch.dtype],
) -> Parts:
    """The networks, the VAE in float32 and the others in compute_dtype, tensor by tensor.

    home: the folder with the components' configs. vae: another VAE's file or folder, or "".
    dtypes: of those that are to be in another one, cast from the file but once.
    Tensors that no part has (position ids, an EMA's copies) are left alone.
    """
    parts = empty_parts(spec, home, unet_channels=model.unet_channels)
    networks: dict[Component, nn.Module] = {"unet": parts.unet, **parts.encoders}
    if not vae:
        networks["vae"] = parts.vae
    for component, network in networks.items():
        usual = VAE_DTYPE if component == "vae" else compute_dtype
        dtype = dtypes.get(component, usual)
        _fill(network, _place(model, component), spec.base, component, dtype, device)
    if vae:
        own = load_vae(Path(vae), spec.base, home, dtype=dtypes.get("vae", VAE_DTYPE))
        return Parts(parts.unet, own, parts.encoders)
    return parts


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


def load_vae(
    path: Path, base: Base, home: Path, *, dtype: torch.dtype = VAE_DTYPE
) -> AutoencoderKL:
    """A VAE of its own, on the CPU: a folder, a file in either spelling, a whole model.

    home: the folder whose vae/config.json tells how the model scales latents, which files do not.
    """
    place = path
    if path.is_dir():
        place = path / "vae" if (path / "vae").is_dir() else path
    config = place / "config.json" if path.is_dir() else home / "vae" / "config.json"
    with init_empty_weights():
        vae = AutoencoderKL.from_config(read_config(config))
    _fill(vae, place, base, "vae", dtype, torch.device("cpu"))
    return vae


def _place(model: ModelFile, component: Component) -> Path:
    """Where a component's weights are: the file itself, or the component's folder."""
    return model.path if model.layout == "single-file" else model.path / component


def _fill(
    network: nn.Module,
    place: Path,
    base: Base,
    component: Component,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    """Gives an empty network the weights of a file or a folder, tensor by tensor to the device."""
    shapes = canonical(network, component)
    try:
        with open_tensors(_files(place, component)) as reader:
            found = _recipes(reader, place, base, component, list(shapes))
            state = read_component(reader, found, shapes, dtype=dtype, device=device)
    except MissingTensorsError as error:
        raise _missing_error(place, component, error.names) from error
    own = network.state_dict().keys()
    fitting = {
        name if name in own else name.removeprefix(TEXT_LEVEL): tensor
        for name, tensor in state.items()
    }
    network.load_state_dict(fitting, assign=True)


def _files(place: Path, component: Component) -> list[Path]:
    if not place.is_dir():
        return [place]
    is_encoder = component.startswith("text_encoder")
    return weight_files(place, TRANSFORMERS_WEIGHTS if is_encoder else DIFFUSERS_WEIGHTS)


def _recipes(
    reader: TensorReader, place: Path, base: Base, component: Component, ours: Sequence[str]
) -> list[Recipe]:
    if component == "vae":
        return vae_recipes(base, ours, reader.names)
    if place.is_dir():
        return [Recipe(name, (name,), "same") for name in ours]
    return recipes(base, component, ours)


def canonical(model: nn.Module, component: Component) -> dict[str, torch.Size]:
    """The shapes of a model's tensors, by names with text encoders' `text_model.` level."""
    state: Mapping[str, Tensor] = model.state_dict()
    return {canonical_name(component, name): tensor.shape for name, tensor in state.items()}


def _class_of(encoder: EncoderSpec) -> type[CLIPTextModel] | type[CLIPTextModelWithProjection]:
    return CLIPTextModelWithProjection if encoder.has_projection else CLIPTextModel


def _missing_error(path: Path, part: str, names: list[str]) -> UserError:
    return UserError(
        f"{path.name}: {len(names)} of the tensors of the {part.replace('_', ' ')} are missing or"
        f" have another shape, first {names[0]}",
        "A complete model was expected",
        "Choose another file; this one was perhaps made for another kind of model",
    )
