"""Check whether a single file's UNet has the widths of the published models of its family.

A folder's configs state its widths. A single file states none and is opened with the published
ones, unless this program has stored the configs in its metadata.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from onetrainer.config.run.model import FamilyName
from onetrainer.families.registry import family_spec
from onetrainer.files.own_json import NotOurs, parse_object
from onetrainer.tensor_files.entries import TensorEntry

CONFIGS_KEY = "onetrainer.configs"
"""Metadata with the configs of a model of other sizes: JSON by path within a diffusers folder."""
_VAE = "first_stage_model."
_UNET = "model.diffusion_model."
_INPUT_LAYER = _UNET + "input_blocks.0.0.weight"
_CONTEXT = ".attn2.to_k.weight"


def is_unusual_size(entries: Mapping[str, TensorEntry], family: FamilyName) -> bool:
    """Return whether the header of a complete model shows a width of no published model."""
    config = _config(family, "unet")
    input_layer = entries.get(_INPUT_LAYER)
    if input_layer is not None and input_layer.shape[:1] not in (
        (),
        (config["block_out_channels"][0],),
    ):
        return True
    return any(
        entry.shape[-1] != config["cross_attention_dim"]
        for name, entry in entries.items()
        if name.startswith(_UNET) and name.endswith(_CONTEXT) and entry.shape
    )


def is_unusual_vae(entries: Mapping[str, TensorEntry], family: FamilyName) -> bool:
    """Return whether the header of a VAE, alone or in a model, shows another width."""
    width = _config(family, "vae")["block_out_channels"][-1]
    layers = (entries.get(f"{prefix}decoder.conv_in.weight") for prefix in (_VAE, ""))
    return any(layer is not None and layer.shape[:1] != (width,) for layer in layers)


def stored_configs(metadata: Mapping[str, str], family: FamilyName) -> str:
    """Return the configs in a file's metadata; "" without, or if they are not the family's."""
    text = metadata.get(CONFIGS_KEY, "")
    try:
        configs = parse_object(text or "{}")
    except NotOurs:
        return ""
    spec = family_spec(family)
    needed = {f"{folder}/config.json" for folder in spec.components}
    needed |= {"scheduler/scheduler_config.json", "model_index.json"}
    is_whole = configs.keys() == needed
    return text if is_whole and all(isinstance(each, dict) for each in configs.values()) else ""


@cache
def _config(base: str, component: str) -> Mapping[str, Any]:
    config: Mapping[str, Any] = json.loads(
        (family_spec(base).configs / component / "config.json").read_text(encoding="utf-8")
    )
    return config
