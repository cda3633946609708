"""JSON: files written by people, with readable errors, and output for programs."""

import json
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError

Document = dict[str, Any]


def read_json(path: Path) -> Document:
    """Read a JSON file that holds one object.

    Raises UserError if the file cannot be read, is not JSON or holds no object.
    """
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
            f"{path}: this file holds no settings",
            "Expected settings in { }",
            "Choose another file.",
        )
    return document


def parse(text: str, *, source: str) -> object:
    """Parse a JSON text. Raises UserError with the line and column of the error."""
    try:
        return json.loads(text, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UserError(
            f"{source}: {place}: {error.msg}", "Expected valid JSON", "Correct it there."
        ) from error
    except RecursionError as error:
        raise UserError(
            f"{source}: the JSON is nested too deeply", "Expected a config", "Choose another file."
        ) from error
    except ValueError as error:  # a number with thousands of digits, or a duplicate key
        raise UserError(f"{source}: {error}", "Expected a config", "Correct it there.") from error


def json_text(document: object) -> str:
    """Return a document as JSON for people and programs; what JSON does not know becomes text."""
    return json.dumps(document, indent=2, ensure_ascii=False, default=str)


def shortened(path: Path, most: int = 200) -> str:
    """Return a path as text, with an ellipsis in the middle beyond `most` characters."""
    text = str(path)
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}"


def _unique_keys(pairs: list[tuple[str, object]]) -> Document:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'"{duplicate}" occurs twice')
    return document
