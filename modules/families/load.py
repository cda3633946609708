"""Loading a base model from a diffusers folder or a single file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import CLIPTokenizer

from modules.diffusion.ddpm import ddpm
from modules.diffusion.schedule import ScheduleSettings
from modules.families.attention import use_plain_attention
from modules.families.components import (
    Components,
    build_empty_components,
    load_components,
    load_tokenizer,
)
from modules.families.prompts.prompts import ClipEncoder, ClipPrompts
from modules.families.stable_diffusion import StableDiffusion
from modules.formats.files.component_configs import read_config
from modules.formats.models.stored_configs import config_folder
from modules.interfaces import NoiseProcess
from modules.memory.residency import move_module
from onetrainer.config.run.model import Model
from onetrainer.errors import UserError
from onetrainer.families.registry import folder_of
from onetrainer.families.spec import EncoderSpec, FamilySpec
from onetrainer.model_files.choices import (
    require_family,
    require_predictable,
    require_published_size,
    require_vae,
    resolve_prediction,
    resolve_zero_snr,
)
from onetrainer.model_files.inspection import inspect_model
from onetrainer.model_files.kinds import ModelFile

NO_DTYPES: Mapping[str, torch.dtype] = {}


def load(
    spec: FamilySpec,
    section: Model,
    *,
    compute_dtype: torch.dtype,
    device: torch.device,
    components_device: torch.device | None = None,
    configs: Path | None = None,
    dtypes: Mapping[str, torch.dtype] = NO_DTYPES,
) -> StableDiffusion:
    """Load a frozen model in evaluation mode; never accesses the network.

    The UNet and the text encoders are loaded in `compute_dtype`, the VAE in float32, others by
    `dtypes`: by component ("unet", "te", "vae" …).

    device: Where it computes; `components_device`: where its components are until they are moved.
    configs: Component and scheduler configs for single files; None for the published ones.

    Raises:
        UserError: If there is no complete model of the family.
    """
    model = inspect_model(Path(section.path))
    require_family(model, section.family, has_custom_vae=bool(section.vae))
    if configs is None:
        require_published_size(model)
    if section.vae:
        require_vae(inspect_model(Path(section.vae)), section.family)
    home = config_folder(model, configs or spec.configs)
    # Before the weights, so that errors in the config are reported at once.
    scheduler = read_config(home / "scheduler" / "scheduler_config.json")
    settings = _schedule_settings(scheduler, model, section)
    prediction = resolve_prediction(model, section.prediction)
    require_predictable(prediction, zero_terminal_snr=settings.zero_terminal_snr, model=model)
    for encoder in spec.encoders:
        folder = encoder.component.folder
        depth = read_config(home / folder / "config.json")["num_hidden_layers"]
        _layer(encoder, section.clip_skip, depth=int(depth))
    components = load_components(
        spec,
        model,
        home,
        vae=section.vae,
        compute_dtype=compute_dtype,
        device=components_device or device,
        dtypes={folder_of(name): dtype for name, dtype in dtypes.items()},
    )
    for network in (components.unet, components.vae, *components.encoders.values()):
        network.requires_grad_(False)
        network.eval()
        move_module(network, components_device or device)
    return assemble(
        spec,
        components,
        tokenizer=load_tokenizer(home),
        clip_skip=section.clip_skip,
        process=ddpm(settings, prediction).to(device),
    )


def empty(
    spec: FamilySpec,
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
    components = build_empty_components(spec, home, unet_channels=spec.unet_channels)
    networks: dict[str, nn.Module] = {"unet": components.unet, "vae": components.vae}
    networks |= components.encoders
    for name in ("unet", "vae", *spec.encoder_names):
        network = networks[folder_of(name)].requires_grad_(False).eval()
        # diffusers' own `to` warns of modules kept in float32
        nn.Module.to(network, torch.device("meta"), dtypes[name])
    return assemble(
        spec, components, tokenizer=load_tokenizer(home), process=ddpm(), clip_skip=clip_skip
    )


def assemble(
    spec: FamilySpec,
    components: Components,
    *,
    tokenizer: CLIPTokenizer,
    process: NoiseProcess,
    clip_skip: int = 0,
) -> StableDiffusion:
    """Assemble a family from its components, which are neither moved nor cast.

    clip_skip: Layer of the text encoders, counted from the end; 0 for the family's default.

    Raises:
        UserError: If the model lacks the layer of `clip_skip`.
    """
    use_plain_attention(components.unet)
    encoders = tuple(
        ClipEncoder(
            name=encoder.name,
            model=components.encoders[encoder.component.folder],
            pad=encoder.pad,
            layer=_layer(
                encoder,
                clip_skip,
                depth=components.encoders[encoder.component.folder].config.num_hidden_layers,
            ),
            is_normed=encoder.is_normed,
            is_pooled=encoder.has_projection,
        )
        for encoder in spec.encoders
    )
    return StableDiffusion(
        spec=spec,
        unet=components.unet,
        vae=components.vae,
        prompts=ClipPrompts(tokenizer, encoders),
        process=process,
    )


def _layer(encoder: EncoderSpec, clip_skip: int, *, depth: int) -> int:
    """Return the layer to read, counted from the end of the `depth` stored layers."""
    layer = (clip_skip or encoder.clip_skip) - encoder.missing_layers
    if not 1 <= layer <= depth:
        lowest, highest = 1 + encoder.missing_layers, depth + encoder.missing_layers
        raise UserError(
            f"model.clip_skip: {clip_skip} is a layer that this model does not have",
            f"Expected {lowest} to {highest} for this model, or 0",
            f"Set it to 0, which means {encoder.clip_skip} for this model",
        )
    return layer


def _schedule_settings(
    config: Mapping[str, Any], model: ModelFile, section: Model
) -> ScheduleSettings:
    """Return the noise schedule that a diffusers scheduler config describes."""
    betas = config.get("beta_schedule", "scaled_linear")
    if betas != "scaled_linear":
        raise UserError(
            f"{model.path.name}: this model uses another noise schedule ({betas})",
            "Expected Stable Diffusion's schedule (scaled_linear)",
            "Choose another base model",
        )
    return ScheduleSettings(
        beta_start=float(config.get("beta_start", ScheduleSettings.beta_start)),
        beta_end=float(config.get("beta_end", ScheduleSettings.beta_end)),
        steps=int(config.get("num_train_timesteps", ScheduleSettings.steps)),
        zero_terminal_snr=resolve_zero_snr(model, section.zero_terminal_snr),
    )
