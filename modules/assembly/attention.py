"""The attention kernel of a run whose config asks for a measurement."""

from functools import partial

import torch

from modules.formats.files.component_configs import MODELS, read_config
from modules.memory.attention_choice import attention_shapes, fastest_kernel, kernel_seconds
from modules.memory.precision import compute_dtype
from onetrainer.config.run.hardware import AttentionKernel
from onetrainer.config.train import TrainConfig
from onetrainer.families.registry import base_of
from onetrainer.run.user_folder import user_folder

_LATENT_SIDE = 8
"""Pixels of a latent's side."""


def with_measured_attention(config: TrainConfig, device: torch.device) -> TrainConfig:
    """Return the config with a kernel in place of "measured"; torch's own where there is no GPU.

    Measured for square images of the largest resolution, which takes some seconds at the first
    time.
    """
    if config.hardware.attention != "measured":
        return config
    kernel: AttentionKernel = "auto"
    if device.type == "cuda":
        unet = read_config(MODELS / base_of(config.model.family) / "unet" / "config.json")
        data = config.data
        sizes = [data.resolution, *(each.resolution for each in data.buckets.resolutions)]
        side = max(sizes) // _LATENT_SIDE
        shapes = attention_shapes(unet, side=(side, side), batch=config.training.batch_size)
        dtype = compute_dtype(config.hardware.precision)
        kernel = fastest_kernel(
            shapes,
            dtype,
            gpu=torch.cuda.get_device_name(device),
            seconds=partial(kernel_seconds, shapes=shapes, dtype=dtype, device=device),
            remembered=user_folder() / "attention.json",
        )
    hardware = config.hardware.model_copy(update={"attention": kernel})
    return config.model_copy(update={"hardware": hardware})
