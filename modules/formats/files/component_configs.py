"""The configs of a model's components, which say of what widths and blocks they are."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onetrainer import ROOT
from onetrainer.errors import UserError

MODELS = ROOT / "configs" / "models"
"""Component configs of each base's published models, and the vocabulary of all of them."""

Config = Mapping[str, Any]


def read_config(path: Path) -> dict[str, Any]:
    """A JSON object; raises UserError if the file is missing or damaged."""
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: this config cannot be read ({error})",
            "A JSON file was expected",
            "The model's folder was not downloaded completely; download it again",
        ) from error
    return config
