"""A base model out of whatever people have: a folder, one file, a name on the hub."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from transformers import CLIPTokenizer

from modules.diffusion.schedule import NoiseSchedule, ScheduleSettings, scaled_linear
from modules.families import components
from modules.families.components import Parts
from modules.families.prompts.prompts import ClipEncoder, ClipPrompts
from modules.families.spec import EncoderSpec, FamilySpec
from modules.families.stable_diffusion import StableDiffusion
from modules.formats.files.component_configs import read_config
from modules.formats.original.layout import Component
from modules.memory.residency import put
from onetrainer.config.run.model import FamilyName, Model, Prediction
from onetrainer.errors import UserError
from onetrainer.model_files import (
    ModelFile,
    inspect_model,
    require_family,
    require_predictable,
    require_published_size,
    require_vae,
    resolve_prediction,
    resolve_zero_snr,
)

NO_DTYPES: Mapping[str, torch.dtype] = MappingProxyType({})


def load(
    spec: FamilySpec,
    section: Model,
    *,
    compute_dtype: torch.dtype,
    device: torch.device,
    parts_device: torch.device | None = None,
    configs: Path | None = None,
    dtypes: Mapping[str, torch.dtype] = NO_DTYPES,
) -> StableDiffusion:
    """A frozen model in evaluation mode; the network is never asked.

    UNet and text encoders in compute_dtype, the VAE in float32. section.path: a folder or a file.
    device: where it computes. parts_device: where its parts are until they are moved; None for
    the same. dtypes: by part ("unet", "te", "vae" …), of those that are to be in another one.
    configs: a folder with component configs and scheduler config for single files; None means
    those of the published models. Raises UserError if there is no complete model of the family.
    """
    model = inspect_model(Path(section.path))
    require_family(model, section.family, vae_given=bool(section.vae))
    if configs is None:
        require_published_size(model)
    if section.vae:
        require_vae(inspect_model(Path(section.vae)), section.family)
    home = model.path if model.layout == "folder" else configs or spec.configs
    # Before the weights: what the config alone refuses is told at once.
    scheduler = read_config(home / "scheduler" / "scheduler_config.json")
    settings = _schedule_settings(scheduler, model, section)
    prediction = resolve_prediction(model, section.prediction)
    require_predictable(prediction, zero_terminal_snr=settings.zero_terminal_snr, model=model)
    for encoder in spec.encoders:
        depth = read_config(home / encoder.component / "config.json")["num_hidden_layers"]
        _layer(encoder, section.clip_skip, depth=int(depth))
    own: dict[str, Component] = {"unet": "unet", "vae": "vae"}
    own |= {encoder.name: encoder.component for encoder in spec.encoders}
    parts = components.load_parts(
        spec,
        model,
        home,
        vae=section.vae,
        compute_dtype=compute_dtype,
        device=parts_device or device,
        dtypes={own[part]: dtype for part, dtype in dtypes.items()},
    )
    for part in (parts.unet, parts.vae, *parts.encoders.values()):
        _freeze(part, parts_device or device)
    return assemble(
        spec,
        parts,
        name=section.family,
        tokenizer=components.load_tokenizer(home),
        clip_skip=section.clip_skip,
        schedule=scaled_linear(settings).to(device),
        prediction=prediction,
    )


def assemble(
    spec: FamilySpec,
    parts: Parts,
    *,
    name: FamilyName,
    tokenizer: CLIPTokenizer,
    schedule: NoiseSchedule,
    prediction: Prediction = "epsilon",
    clip_skip: int = 0,
) -> StableDiffusion:
    """A family of its parts, which are neither moved nor cast. clip_skip: 0 is the family's own.

    Raises UserError for a clip skip whose layer is not there.
    """
    encoders = tuple(
        ClipEncoder(
            name=encoder.name,
            model=parts.encoders[encoder.component],
            pad=encoder.pad,
            layer=_layer(
                encoder, clip_skip, depth=parts.encoders[encoder.component].config.num_hidden_layers
            ),
            is_normed=encoder.is_normed,
            is_pooled=encoder.has_projection,
        )
        for encoder in spec.encoders
    )
    return StableDiffusion(
        name=name,
        unet=parts.unet,
        vae=parts.vae,
        prompts=ClipPrompts(tokenizer, encoders),
        schedule=schedule,
        prediction=prediction,
        added=spec.added,
    )


def _layer(encoder: EncoderSpec, clip_skip: int, *, depth: int) -> int:
    """Which of the depth layers that there are is read, from the end."""
    layer = (clip_skip or encoder.clip_skip) - encoder.missing_layers
    if not 1 <= layer <= depth:
        lowest, highest = 1 + encoder.missing_layers, depth + encoder.missing_layers
        raise UserError(
            f"model.clip_skip: {clip_skip} means a layer that this model's files do not hold",
            f"Expected {lowest} to {highest} for this model, or 0",
            f"Set it to 0, which is {encoder.clip_skip} here.",
        )
    return layer


def _schedule_settings(
    config: Mapping[str, Any], model: ModelFile, section: Model
) -> ScheduleSettings:
    """The noise schedule that a diffusers scheduler config describes."""
    betas = config.get("beta_schedule", "scaled_linear")
    if betas != "scaled_linear":
        raise UserError(
            f"{model.path.name}: this model has a noise schedule of its own ({betas})",
            "Expected Stable Diffusion's usual schedule (scaled_linear)",
            "Choose another base model",
        )
    return ScheduleSettings(
        beta_start=float(config.get("beta_start", ScheduleSettings.beta_start)),
        beta_end=float(config.get("beta_end", ScheduleSettings.beta_end)),
        steps=int(config.get("num_train_timesteps", ScheduleSettings.steps)),
        zero_terminal_snr=resolve_zero_snr(model, section.zero_terminal_snr),
    )


def _freeze(part: nn.Module, device: torch.device) -> None:
    part.requires_grad_(False)
    part.eval()
    put(part, device)
