"""Check whether a single file's UNet has the widths of the published models of its family.

A folder's configs state its widths; a single file states none and is opened with the published
ones.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from onetrainer.config.run.model import FamilyName
from onetrainer.families.registry import family_spec
from onetrainer.tensor_files import TensorEntry

_UNET = "model.diffusion_model."
_INPUT_LAYER = _UNET + "input_blocks.0.0.weight"
_CONTEXT = ".attn2.to_k.weight"


def is_unusual_size(entries: Mapping[str, TensorEntry], family: FamilyName) -> bool:
    """Return whether the header of a complete model shows a width of no published model."""
    config = _config(family)
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


@cache
def _config(base: str) -> Mapping[str, Any]:
    config: Mapping[str, Any] = json.loads(
        (family_spec(base).configs / "unet" / "config.json").read_text(encoding="utf-8")
    )
    return config
