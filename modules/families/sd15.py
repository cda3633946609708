"""Loading Stable Diffusion 1.x: a diffusers folder, or one file in the original layout."""

from pathlib import Path

import torch
from torch import nn

from modules.families import components
from modules.families.prompts import ClipPrompts
from modules.families.stable_diffusion import StableDiffusion, prediction_of, schedule_of
from onetrainer.model_file import inspect_model, require_family

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "models" / "sd15"
"""Component configs and tokenizer for files that bring none."""


def load_sd15(
    path: Path, *, compute_dtype: torch.dtype, device: torch.device, configs: Path = CONFIGS
) -> StableDiffusion:
    """A frozen SD 1.x model in evaluation mode; the network is never asked.

    UNet and text encoder in compute_dtype, the VAE in float32, all on the device.
    configs: a folder with component configs, scheduler config and tokenizer, for single files.
    Raises UserError if the path holds no complete SD 1.x model.
    """
    model = inspect_model(path)
    require_family(model, "sd15")
    home = path if model.layout == "folder" else configs
    # Before the weights: what the config alone refuses is told at once.
    scheduler = components.read_config(home / "scheduler" / "scheduler_config.json")
    schedule, prediction = schedule_of(scheduler, path.name), prediction_of(scheduler, path.name)
    match model.layout:
        case "folder":
            parts = components.from_folder(path, compute_dtype)
        case "single-file":
            parts = components.from_single_file(path, configs, compute_dtype, device)
    for part in (parts.unet, parts.vae, parts.text_encoder):
        _freeze(part, device)
    return StableDiffusion(
        unet=parts.unet,
        vae=parts.vae,
        prompts=ClipPrompts(components.load_tokenizer(home), parts.text_encoder),
        schedule=schedule.to(device),
        prediction=prediction,
    )


def _freeze(part: nn.Module, device: torch.device) -> None:
    part.requires_grad_(False)
    part.eval()
    part.to(device)
