"""Components of a Stable Diffusion model, loaded from a diffusers folder or a single file."""

import filecmp
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import torch

# The modules themselves: `from diffusers import …` would import every pipeline on top.
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Tensor, nn
from transformers import CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

from modules.formats.files.component_configs import read_config
from modules.formats.files.tensor_source import TensorReader, open_tensors
from modules.formats.models.component_shapes import build_empty, canonical_name
from modules.formats.original.layout import find_stored_names, read_component
from onetrainer.families.spec import CLIP_TOKENIZER, ComponentSpec, FamilySpec
from onetrainer.model_files.folders import weight_files
from onetrainer.model_files.kinds import ModelFile
from onetrainer.model_files.original.layout import TEXT_LEVEL, in_spelling, recipes
from onetrainer.model_files.original.recipe import Recipe
from onetrainer.model_files.original.vae_files import vae_recipes

VAE_DTYPE = torch.float32  # Stable Diffusion's VAEs were trained in float32

Encoder: TypeAlias = CLIPTextModel | CLIPTextModelWithProjection


@dataclass(frozen=True)
class Components:
    """The networks of a model; text encoders by component."""

    unet: UNet2DConditionModel
    vae: AutoencoderKL
    encoders: Mapping[str, Encoder]


def load_components(
    spec: FamilySpec,
    model: ModelFile,
    home: Path,
    *,
    vae: str,
    compute_dtype: torch.dtype,
    device: torch.device,
    dtypes: Mapping[str, torch.dtype],
) -> Components:
    """Load the weights of all networks, the VAE in float32 and the others in `compute_dtype`.

    Tensors are read and cast one by one. Tensors of the files that belong to no component (position
    ids, EMA copies) are ignored.

    home: Folder with the component configs.
    vae: File or folder of another VAE; "" for the model's own.
    dtypes: Components to load in another dtype than the default.
    """
    components = build_empty_components(spec, home, unet_channels=model.unet_channels)
    networks: dict[str, nn.Module] = {"unet": components.unet, **components.encoders}
    if not vae:
        networks["vae"] = components.vae
    paths = {
        component: model.path if model.layout == "single-file" else model.path / component
        for component in networks
    }
    # All of them before the first, whose weights take a while to read.
    for component, network in networks.items():
        require_weights(network, paths[component], spec.components[component])
    for component, network in networks.items():
        dtype = dtypes.get(component, VAE_DTYPE if component == "vae" else compute_dtype)
        path = paths[component]
        load_weights(network, path, spec.components[component], dtype, device)
    if vae:
        loaded = load_vae(Path(vae), spec.vae, home, dtype=dtypes.get("vae", VAE_DTYPE))
        return Components(components.unet, loaded, components.encoders)
    return components


def build_empty_components(
    spec: FamilySpec, configs: Path, *, unet_channels: int = 0
) -> Components:
    """Build the networks from their configs without weights, on the meta device.

    unet_channels: Input channels of the UNet; 0 for those of its config.
    """
    unet = dict(read_config(configs / "unet" / "config.json"))
    if unet_channels:
        unet["in_channels"] = unet_channels
    networks = {
        folder: build_empty(
            component, unet if folder == "unet" else read_config(configs / folder / "config.json")
        )
        for folder, component in spec.components.items()
    }
    encoders = {name: network for name, network in networks.items() if isinstance(network, Encoder)}
    built, vae = networks["unet"], networks["vae"]
    assert isinstance(built, UNet2DConditionModel), "the engine of Stable Diffusion"
    assert isinstance(vae, AutoencoderKL), "the engine of Stable Diffusion"
    return Components(built, vae, encoders)


def load_tokenizer(home: Path) -> CLIPTokenizer:
    """Load the tokenizer of a model's folder, or the shared one if the vocabularies are equal.

    The tokenizers of SD 2 and SDXL use "!" for padding and treat each "!" of a caption as padding;
    the shared tokenizer does not.
    """
    shared = _shared_tokenizer()
    folder = home / "tokenizer"
    vocabulary = folder / "vocab.json"
    if not vocabulary.is_file() and not (folder / "tokenizer.json").is_file():
        return shared
    if vocabulary.is_file() and filecmp.cmp(
        vocabulary, CLIP_TOKENIZER / "vocab.json", shallow=False
    ):
        return shared
    model_specific: CLIPTokenizer = CLIPTokenizer.from_pretrained(folder, local_files_only=True)
    return shared if model_specific.get_vocab() == shared.get_vocab() else model_specific


@cache  # loading it takes a quarter of a second
def _shared_tokenizer() -> CLIPTokenizer:
    tokenizer: CLIPTokenizer = CLIPTokenizer.from_pretrained(CLIP_TOKENIZER, local_files_only=True)
    return tokenizer


def load_vae(
    path: Path, component: ComponentSpec, home: Path, *, dtype: torch.dtype = VAE_DTYPE
) -> AutoencoderKL:
    """Load a separate VAE on the CPU, from a folder, a VAE file or a whole model.

    home: Folder whose vae/config.json gives the latents' scaling factor, which files lack.
    """
    source = path / "vae" if (path / "vae").is_dir() else path
    config = source / "config.json" if path.is_dir() else home / "vae" / "config.json"
    vae = build_empty(component, read_config(config))
    assert isinstance(vae, AutoencoderKL), "the engine of Stable Diffusion"
    load_weights(vae, source, component, dtype, torch.device("cpu"))
    return vae


def require_weights(network: nn.Module, path: Path, component: ComponentSpec) -> None:
    """Raise UserError unless a file or folder has all weights of a network, by its header."""
    shapes = canonical_shapes(network, component)
    files = weight_files(path, component.weights) if path.is_dir() else [path]
    with open_tensors(files) as reader:
        find_stored_names(reader, _recipes(reader, path, component, list(shapes)), shapes)


def load_weights(
    network: nn.Module,
    path: Path,
    component: ComponentSpec,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    """Load the weights of a file or folder into an empty network, one tensor at a time."""
    shapes = canonical_shapes(network, component)
    files = weight_files(path, component.weights) if path.is_dir() else [path]
    with open_tensors(files) as reader:
        component_recipes = _recipes(reader, path, component, list(shapes))
        state = read_component(reader, component_recipes, shapes, dtype=dtype, device=device)
    expected = network.state_dict().keys()
    renamed = {
        name if name in expected else name.removeprefix(TEXT_LEVEL): tensor
        for name, tensor in state.items()
    }
    network.load_state_dict(renamed, assign=True)


def _recipes(
    reader: TensorReader, path: Path, component: ComponentSpec, ours: Sequence[str]
) -> list[Recipe]:
    if component.names == "vae":
        return vae_recipes(component, ours, reader.names)
    if path.is_dir():
        return [Recipe(name, (name,), "same") for name in ours]
    return in_spelling(recipes(component, ours), reader.names)


def canonical_shapes(model: nn.Module, component: ComponentSpec) -> dict[str, torch.Size]:
    """Return the shapes of a model's tensors, names of text encoders with `text_model.`."""
    state: Mapping[str, Tensor] = model.state_dict()
    return {canonical_name(component, name): tensor.shape for name, tensor in state.items()}
