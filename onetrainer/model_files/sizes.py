"""Whether a single file's UNet is as wide as that of the published models of its family.

A folder's configs tell its widths; a single file tells none and is opened with the published ones.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from onetrainer import ROOT
from onetrainer.config.run.model import FamilyName, base_of
from onetrainer.tensor_files import TensorEntry

MODELS = ROOT / "configs" / "models"
_UNET = "model.diffusion_model."
_ENTRANCE = _UNET + "input_blocks.0.0.weight"
_CONTEXT = ".attn2.to_k.weight"


def is_unusual_size(entries: Mapping[str, TensorEntry], family: FamilyName) -> bool:
    """Whether the header of a whole model shows a width that none of the published ones has."""
    config = _config(base_of(family))
    entrance = entries.get(_ENTRANCE)
    if entrance is not None and entrance.shape[:1] not in ((), (config["block_out_channels"][0],)):
        return True
    return any(width != config["cross_attention_dim"] for width in _context_widths(entries))


def _context_widths(entries: Mapping[str, TensorEntry]) -> Iterator[int]:
    """How wide the text is that each block of the UNet reads."""
    for name, entry in entries.items():
        if name.startswith(_UNET) and name.endswith(_CONTEXT) and entry.shape:
            yield entry.shape[-1]


@cache
def _config(base: str) -> Mapping[str, Any]:
    config: Mapping[str, Any] = json.loads(
        (MODELS / base / "unet" / "config.json").read_text(encoding="utf-8")
    )
    return config
