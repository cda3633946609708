"""Reading JSON that people have written, without ever failing in a way they cannot read."""

import json
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError

Document = dict[str, Any]


def read_json(path: Path) -> Document:
    """The object in a JSON file. Raises UserError for whatever keeps it from being read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            f"{shortened(path)}: cannot be read ({reason})", "Expected a config", "Check the path."
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: this is not a text file", "Expected a JSON config", "Choose another file."
        ) from error
    document = parse(text, source=str(path))
    if not isinstance(document, dict):
        raise UserError(
            f"{path}: this holds no settings", "Expected settings in { }", "Choose another file."
        )
    return document


def parse(text: str, *, source: str) -> object:
    """The value of a JSON text. Raises UserError naming the place that is wrong."""
    try:
        return json.loads(text, object_pairs_hook=_without_doubles)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UserError(
            f"{source}: {place}: {error.msg}", "Expected valid JSON", "Correct that place."
        ) from error
    except RecursionError as error:
        raise UserError(
            f"{source}: this is nested too deeply", "Expected a config", "Choose another file."
        ) from error
    except ValueError as error:  # a number of thousands of digits, or a name given twice
        raise UserError(f"{source}: {error}", "Expected a config", "Correct that place.") from error


def shortened(path: Path, most: int = 200) -> str:
    """A path as text, its middle left out where it is absurdly long."""
    text = str(path)
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}"


def _without_doubles(pairs: list[tuple[str, object]]) -> Document:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'"{double}" is given twice')
    return document
