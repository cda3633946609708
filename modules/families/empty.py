"""A full-size model family without weights, for estimating memory and time."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from modules.diffusion.ddpm import ddpm
from modules.families.components import build_empty_components, load_tokenizer
from modules.families.load import assemble
from modules.families.spec import FamilySpec
from modules.families.stable_diffusion import StableDiffusion
from onetrainer.config.run.model import FamilyName

_META = torch.device("meta")
_INPAINTING = 9


def empty_family(
    spec: FamilySpec,
    name: FamilyName,
    *,
    dtypes: Mapping[str, torch.dtype],
    configs: Path | None = None,
    clip_skip: int = 0,
) -> StableDiffusion:
    """Build a frozen family in evaluation mode whose tensors are on the meta device.

    dtypes: Dtype of every component: "unet", "vae", "te" …
    configs: Folder with the component configs; None for those of the published models.
    """
    home = configs or spec.configs
    channels = _INPAINTING if name.endswith("-inpainting") else 0
    components = build_empty_components(spec, home, unet_channels=channels)
    _prepare(components.unet, dtypes["unet"])
    _prepare(components.vae, dtypes["vae"])
    for encoder in spec.encoders:
        _prepare(components.encoders[encoder.component], dtypes[encoder.name])
    return assemble(
        spec,
        components,
        name=name,
        tokenizer=load_tokenizer(home),
        process=ddpm(),
        clip_skip=clip_skip,
    )


def _prepare(network: nn.Module, dtype: torch.dtype) -> None:
    network.requires_grad_(False).eval()
    nn.Module.to(network, _META, dtype)  # diffusers' own `to` warns of modules kept in float32
