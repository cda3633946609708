"""The base model of a job: found on this disk or on the Hub, and loaded."""

from collections.abc import Mapping
from pathlib import Path

import torch

from modules.assembly.placement import storage_dtypes
from modules.families.hub import fetch
from modules.families.registry import load_family
from modules.interfaces import Family
from modules.memory.precision import apply_tf32, compute_dtype
from onetrainer.config.run.hardware import Hardware
from onetrainer.config.run.model import Model
from onetrainer.config.train import TrainConfig
from onetrainer.model_files.hub import is_hub_name
from onetrainer.run.events import Phase, Report

BASE_MODEL = "base model"
"""Key in a run's versions: the Hub commit of the base model."""


def use_hardware(hardware: Hardware) -> None:
    """Set the precision of float32 products and the number of threads."""
    apply_tf32(hardware.tf32)
    if hardware.threads:
        torch.set_num_threads(hardware.threads)


def local_model(path: str, report: Report, *, offline: bool, revision: str | None = None) -> Path:
    """Return the place of a model on this disk; a Hub model is downloaded, see `fetch`."""
    if not is_hub_name(path):
        return Path(path)
    return fetch(
        path,
        offline=offline,
        report=lambda detail: report(Phase("loading", detail=detail)),
        revision=revision,
    )


def recorded_revision(versions: Mapping[str, str]) -> str | None:
    """Return the version of the Hub model that a run began with; None for a file or folder."""
    return versions.get(BASE_MODEL, "").rpartition("@")[2] or None


def load_base(
    config: TrainConfig,
    path: Path,
    report: Report,
    *,
    device: torch.device,
    components_device: torch.device,
) -> tuple[Family, Model]:
    """Load a config's base model in the dtypes of its run; return it and its section.

    path: Where it is on this disk, which the section then names.
    """
    report(Phase("loading", detail="base model"))
    section = config.model.model_copy(update={"path": str(path)})
    family = load_family(
        section,
        compute_dtype=compute_dtype(config.hardware.precision),
        device=device,
        components_device=components_device,
        dtypes=storage_dtypes(config),
    )
    family = family.with_prompt_weights(config.data.caption_weights)
    return family.with_tiling(is_on=config.hardware.vae_tiling), section
