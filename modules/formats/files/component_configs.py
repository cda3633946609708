"""Configs of a model's components, which define their architecture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError
from onetrainer.families.spec import MODELS as MODELS
from onetrainer.files.ordinary import read_ordinary
from onetrainer.files.own_json import NotOurs, parse_object

Config = Mapping[str, Any]


def read_config(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise UserError if the file is missing or damaged."""
    try:
        return parse_object(read_ordinary(path))
    except (OSError, NotOurs) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise UserError(
            f"{path}: this config cannot be read ({reason.lower()})",
            "Expected a JSON file",
            "The model's folder may be incomplete; download it again",
        ) from error
