"""Names and shapes of a component's tensors, from its config alone."""

import json
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from accelerate import init_empty_weights

# The modules themselves: `from diffusers import …` would import every pipeline on top.
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from torch import Size, Tensor, nn
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from modules.formats.files.component_configs import Config
from modules.formats.original.layout import TEXT_LEVEL, Component

ABOVE_TEXT_LEVEL = "text_projection."


def shapes_of(component: Component, config: Config) -> Mapping[str, Size]:
    """Return each tensor's shape by our name; text encoders' with the `text_model.` level."""
    return _shapes_of(component, json.dumps(config, sort_keys=True))


@lru_cache(maxsize=8)  # building a UNet takes a second, even without weights
def _shapes_of(component: Component, config: str) -> Mapping[str, Size]:
    with init_empty_weights():
        state: dict[str, Tensor] = _empty(component, json.loads(config)).state_dict()
    return MappingProxyType(
        {canonical_name(component, name): tensor.shape for name, tensor in state.items()}
    )


def canonical_name(component: Component, name: str) -> str:
    """Return a name with the `text_model.` level, which transformers since 5.6 omits from some."""
    is_encoder = component in ("text_encoder", "text_encoder_2")
    if not is_encoder or name.startswith((TEXT_LEVEL, ABOVE_TEXT_LEVEL)):
        return name
    return TEXT_LEVEL + name


def _empty(component: Component, config: Config) -> nn.Module:
    model: nn.Module
    match component:
        case "unet":
            model = UNet2DConditionModel.from_config(config)
        case "vae":
            model = AutoencoderKL.from_config(config)
        case "text_encoder":
            model = CLIPTextModel(CLIPTextConfig(**config))
        case "text_encoder_2":
            model = CLIPTextModelWithProjection(CLIPTextConfig(**config))
    return model
