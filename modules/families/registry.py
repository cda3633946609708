"""The model families, and loading a base model as one of them."""

from collections.abc import Mapping

import torch

from modules.families.load import NO_DTYPES, load
from modules.families.sd2 import SD2
from modules.families.sd15 import SD15
from modules.families.sdxl import SDXL
from modules.families.spec import FamilySpec
from modules.families.stable_diffusion import StableDiffusion
from onetrainer.config.run.model import Base, Model, base_of


def load_family(
    section: Model,
    *,
    compute_dtype: torch.dtype,
    device: torch.device,
    parts_device: torch.device | None = None,
    dtypes: Mapping[str, torch.dtype] = NO_DTYPES,
) -> StableDiffusion:
    """The base model, frozen. section.path: a folder or a file, not a hub name.

    device: where it computes. parts_device: where its parts are until they are moved; None for
    the same. dtypes: by part ("unet", "te", "vae" …), of those that are to be in another one.
    """
    spec = family_spec(base_of(section.family))
    return load(
        spec,
        section,
        compute_dtype=compute_dtype,
        device=device,
        parts_device=parts_device,
        dtypes=dtypes,
    )


def family_spec(base: Base) -> FamilySpec:
    """What a base is made of."""
    match base:
        case "sd15":
            return SD15
        case "sd2":
            return SD2
        case "sdxl":
            return SDXL
