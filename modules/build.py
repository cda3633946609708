"""From a section of the config to the library's object it names."""

import importlib
from collections.abc import Callable, Sequence

import torch

from modules.families.load import load
from modules.families.sd2 import SD2
from modules.families.sd15 import SD15
from modules.families.sdxl import SDXL
from modules.families.spec import FamilySpec
from modules.families.stable_diffusion import StableDiffusion
from modules.interfaces import ParameterGroup
from onetrainer.config.model import Base, Model, base_of
from onetrainer.config.optimizer import Optimizer

# Settings of an optimizer section that its class does not take under that name.
_OWN_KEYS = {"kind", "lr", "text_encoder_lr", "beta1", "beta2"}


def load_family(
    section: Model, *, compute_dtype: torch.dtype, device: torch.device
) -> StableDiffusion:
    """The base model, frozen, on the device. section.path: a folder or a file, not a hub name."""
    spec = family_spec(base_of(section.family))
    return load(spec, section, compute_dtype=compute_dtype, device=device)


def family_spec(base: Base) -> FamilySpec:
    """What a base is made of."""
    match base:
        case "sd15":
            return SD15
        case "sd2":
            return SD2
        case "sdxl":
            return SDXL


def build_optimizer(section: Optimizer, groups: Sequence[ParameterGroup]) -> torch.optim.Optimizer:
    """The optimizer over the groups, each with its part's learning rate in `base_lr`."""
    module, name = section.target.split(":")
    factory: Callable[..., torch.optim.Optimizer] = getattr(importlib.import_module(module), name)
    described = [
        {"params": group.parameters, "lr": rate, "base_lr": rate, "part": group.part}
        for group in groups
        for rate in [_rate(section, group.part)]
    ]
    own = {key: value for key, value in section if key not in _OWN_KEYS}
    return factory(described, betas=(section.beta1, section.beta2), **own, **section.options)


def set_lr(optimizer: torch.optim.Optimizer, multiplier: float) -> None:
    """Scales every group's own learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["base_lr"] * multiplier


def _rate(section: Optimizer, part: str) -> float:
    if part == "unet" or section.text_encoder_lr is None:
        return section.lr
    return section.text_encoder_lr
