"""Names and shapes of a component's tensors, from its config alone."""

import importlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from torch import Size, Tensor, nn

from modules.formats.files.component_configs import Config
from modules.memory import empty
from onetrainer.families.spec import ComponentSpec
from onetrainer.model_files.original.layout import TEXT_LEVEL

ABOVE_TEXT_LEVEL = "text_projection."


def build_empty(component: ComponentSpec, config: Config) -> nn.Module:
    """Build a component from its config without weights, on the meta device."""
    module, _, name = component.network.partition(":")
    network: Any = getattr(importlib.import_module(module), name)
    built: nn.Module = empty.build_empty(
        lambda: (
            network.from_config(config)
            if hasattr(network, "from_config")
            else network(network.config_class(**config))
        )
    )
    return built


def shapes_of(component: ComponentSpec, config: Config) -> Mapping[str, Size]:
    """Return each tensor's shape by our name; CLIP's with the `text_model.` level."""
    return _shapes_of(component, json.dumps(config, sort_keys=True))


@lru_cache(maxsize=32)  # building a UNet takes a second, even without weights
def _shapes_of(component: ComponentSpec, config: str) -> Mapping[str, Size]:
    state: dict[str, Tensor] = build_empty(component, json.loads(config)).state_dict()
    return {canonical_name(component, name): tensor.shape for name, tensor in state.items()}


def canonical_name(component: ComponentSpec, name: str) -> str:
    """Return a name with the `text_model.` level, which transformers since 5.6 omits from some."""
    if not component.has_text_level or name.startswith((TEXT_LEVEL, ABOVE_TEXT_LEVEL)):
        return name
    return TEXT_LEVEL + name
