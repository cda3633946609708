"""The model families, and loading a base model by its family."""

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
    components_device: torch.device | None = None,
    dtypes: Mapping[str, torch.dtype] = NO_DTYPES,
) -> StableDiffusion:
    """Load the base model, frozen.

    section: Its `path` is a folder or a file, not a hub name.
    device: Where it computes.
    components_device: Where its components are until they are moved; None for `device`.
    dtypes: Components ("unet", "te", "vae" …) to load in another dtype.
    """
    spec = family_spec(base_of(section.family))
    return load(
        spec,
        section,
        compute_dtype=compute_dtype,
        device=device,
        components_device=components_device,
        dtypes=dtypes,
    )


def family_spec(base: Base) -> FamilySpec:
    """Return the specification of a base."""
    match base:
        case "sd15":
            return SD15
        case "sd2":
            return SD2
        case "sdxl":
            return SDXL
