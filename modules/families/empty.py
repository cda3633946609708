"""A family of full size without its weights, for counting what it would take."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from modules.diffusion.schedule import ScheduleSettings, scaled_linear
from modules.families.components import empty_parts, load_tokenizer
from modules.families.load import assemble
from modules.families.spec import FamilySpec
from modules.families.stable_diffusion import StableDiffusion
from onetrainer.config.run.model import FamilyName, Prediction

_META = torch.device("meta")
_INPAINTING = 9


def empty_family(
    spec: FamilySpec,
    name: FamilyName,
    *,
    dtypes: Mapping[str, torch.dtype],
    configs: Path | None = None,
    prediction: Prediction = "epsilon",
    clip_skip: int = 0,
) -> StableDiffusion:
    """A frozen family in evaluation mode whose tensors are on the meta device.

    dtypes: of every part: "unet", "vae", "te" … configs: the folder with the components' configs;
    None means those of the published models.
    """
    home = configs or spec.configs
    channels = _INPAINTING if name.endswith("-inpainting") else 0
    parts = empty_parts(spec, home, unet_channels=channels)
    _prepare(parts.unet, dtypes["unet"])
    _prepare(parts.vae, dtypes["vae"])
    for encoder in spec.encoders:
        _prepare(parts.encoders[encoder.component], dtypes[encoder.name])
    return assemble(
        spec,
        parts,
        name=name,
        tokenizer=load_tokenizer(home),
        schedule=scaled_linear(ScheduleSettings()),
        prediction=prediction,
        clip_skip=clip_skip,
    )


def _prepare(part: nn.Module, dtype: torch.dtype) -> None:
    """Frozen, on the meta device with its buffers, weights in a dtype."""
    part.requires_grad_(False).eval()
    nn.Module.to(part, _META, dtype)  # diffusers' own warns of what it leaves alone
