"""Configs of a model's components, which define their architecture."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError
from onetrainer.families.spec import MODELS as MODELS

Config = Mapping[str, Any]


def read_config(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise UserError if the file is missing or damaged."""
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: this config cannot be read ({error})",
            "Expected a JSON file",
            "The model's folder may be incomplete; download it again",
        ) from error
    return config
