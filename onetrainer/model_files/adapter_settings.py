"""peft's settings of an adapter, which state the alphas that its files do not hold.

A layer's alpha is that of the first pattern that ends its path, as a regular expression behind a
dot, or else the one of all. Source: peft, utils/other.py (`get_pattern_key`), which needs torch.
"""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError
from onetrainer.json_file import parse, read_json

METADATA = "lora_adapter_metadata"
"""diffusers' JSON of peft's settings; its alphas are read, but not written."""
WEIGHTS_FILE, SETTINGS_FILE = "adapter_model.safetensors", "adapter_config.json"
"""Names of the files in a folder that peft has written."""


def with_settings_beside(path: Path, metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of a file with peft's settings, which it writes into a file beside it."""
    settings = path.with_name(SETTINGS_FILE)
    if path.name != WEIGHTS_FILE or METADATA in metadata or not settings.is_file():
        return dict(metadata)
    return {**metadata, METADATA: json.dumps(read_json(settings))}


def settings_in(path: Path, metadata: Mapping[str, str]) -> Mapping[str, Any]:
    """Return peft's settings in a file's metadata; empty without. Raises UserError if damaged."""
    if METADATA not in metadata:
        return {}
    settings = parse(metadata[METADATA], source=f"{path.name} ({METADATA})")
    return settings if isinstance(settings, dict) else {}


def alpha_of(
    settings: Mapping[str, Any], component: str, layer: str, rank: int | None
) -> float | None:
    """Return a layer's alpha, which scales it by alpha / rank; None if the settings have none.

    component: The folder of its network, before the names of settings. layer: Its path there.

    Raises UserError for an alpha that is no number.
    """
    stated = {key: settings.get(f"{component}.{key}", settings.get(key)) for key in _KEYS}
    patterns = stated["alpha_pattern"] if isinstance(stated["alpha_pattern"], dict) else {}
    matching = (value for pattern, value in patterns.items() if _ends(pattern, layer))
    alpha = next(matching, stated["lora_alpha"])
    if alpha is None or rank is None:
        return None
    if not isinstance(alpha, int | float) or not math.isfinite(alpha):
        raise UserError(
            f"its settings state {alpha!r:.40} as the alpha of {layer}",
            "Expected a number",
            "Correct lora_alpha and alpha_pattern in its settings",
        )
    return alpha * math.sqrt(rank) if stated["use_rslora"] else float(alpha)


_KEYS = ("lora_alpha", "alpha_pattern", "use_rslora")


def _ends(pattern: str, layer: str) -> bool:
    try:
        return re.match(rf"(.*\.)?({pattern})$", layer) is not None
    except re.error:
        return False
