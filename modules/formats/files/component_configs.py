"""Configs of a model's components, which define their architecture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError
from onetrainer.families.spec import MODELS as MODELS
from onetrainer.files.own_json import NotOurs, parse_object

Config = Mapping[str, Any]


def read_config(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise UserError if the file is missing or damaged."""
    try:
        return parse_object(path.read_bytes())
    except (OSError, NotOurs) as error:
        raise UserError(
            f"{path}: this config cannot be read ({error})",
            "Expected a JSON file",
            "The model's folder may be incomplete; download it again",
        ) from error
