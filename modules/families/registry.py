"""Loading and building of a base model by the engine that its family names."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import torch

from modules.families.circular_padding import pad_circularly
from modules.interfaces import Family
from onetrainer.config.run.model import Model
from onetrainer.families.registry import family_spec
from onetrainer.families.spec import FamilySpec


class Engine(Protocol):
    """What the module that a family names as its engine has."""

    def load(
        self,
        spec: FamilySpec,
        section: Model,
        *,
        compute_dtype: torch.dtype,
        device: torch.device,
        components_device: torch.device | None,
        dtypes: Mapping[str, torch.dtype],
    ) -> Family:
        """Load a frozen model in evaluation mode."""
        ...

    def empty(
        self,
        spec: FamilySpec,
        *,
        dtypes: Mapping[str, torch.dtype],
        configs: Path | None,
        clip_skip: int,
    ) -> Family:
        """Build it in full size on the meta device."""
        ...


def engine_of(spec: FamilySpec) -> Engine:
    """Return the engine of a family."""
    engine: Engine = importlib.import_module(spec.engine)
    return engine


def load_family(
    section: Model,
    *,
    compute_dtype: torch.dtype,
    device: torch.device,
    components_device: torch.device | None = None,
    dtypes: Mapping[str, torch.dtype] | None = None,
) -> Family:
    """Load the base model, frozen.

    section: Its `path` is a folder or a file, not a hub name.
    device: Where it computes.
    components_device: Where its components are until they are moved; None for `device`.
    dtypes: Components ("unet", a text encoder's name, "vae") to load in another dtype.
    """
    spec = family_spec(section.family)
    family = engine_of(spec).load(
        spec,
        section,
        compute_dtype=compute_dtype,
        device=device,
        components_device=components_device,
        dtypes=dtypes or {},
    )
    if section.circular_padding:
        pad_circularly(family.unet, family.vae)
    return family
