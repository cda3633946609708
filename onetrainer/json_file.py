"""JSON: files written by people, with readable errors, and output for programs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onetrainer.errors import UserError
from onetrainer.files.own_json import MAX_DEPTH as MAX_DEPTH
from onetrainer.files.own_json import DuplicateKey, is_deep, unique_keys
from onetrainer.redaction import without_tokens, without_tokens_inside

Document = dict[str, Any]

MAX_BYTES = 4 << 20
"""Size of a config, which has a few kB; with a thousand image folders 3 MB."""

BACKSLASHES = "Expected two for each, or slashes, in JSON"
DOUBLE_THEM = 'Write "C:\\\\Users\\\\me" or "C:/Users/me".'

_ENDS_IN_BACKSLASH = re.compile(r'(?<!\\)(?:\\\\)*\\"\s*[,}\]]*\s*$')
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:\n]|[^\s{}\[\],:"]+')
_MAX_DIGITS = 4300  # of an integer that Python converts


def read_json(path: Path) -> Document:
    """Read a JSON file that holds one object.

    Raises UserError if the file cannot be read, is not JSON, holds no object or is too large.
    """
    try:
        with path.open("rb") as file:  # it may be a device, which has no size and no end
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(
            f"{shortened(path)}: cannot be read ({reason})", "Expected a config", "Check the path."
        ) from error
    if len(content) > MAX_BYTES:
        raise UserError(
            f"{shortened(path)}: this file is larger than {MAX_BYTES >> 20} MiB",
            "Expected a config, which has a few kB",
            "Choose another file.",
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: this is not a text file", "Expected a JSON config", "Choose another file."
        ) from error
    if text.lstrip().startswith("<"):
        raise UserError(
            f"{shortened(path)}: this is a web page, not a preset",
            "Expected a JSON config",
            "Download the raw file: most pages that show one have a button “Raw” or “Download”.",
        )
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
        document = json.loads(text, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        if _is_backslash(text, error):
            raise UserError(
                f"{source}: {place}: a single backslash, as in Windows paths",
                BACKSLASHES,
                DOUBLE_THEM,
            ) from error
        raise UserError(
            f"{source}: {place}: {error.msg}", "Expected valid JSON", "Correct it there."
        ) from error
    except RecursionError as error:
        raise _too_deep(source) from error
    except ValueError as error:  # a number with thousands of digits, or a duplicate key
        raise UserError(
            f"{source}: {_value_error(text, error)}", "Expected a config", "Correct it there."
        ) from error
    if is_deep(document):
        raise _too_deep(source)
    return document


def _is_backslash(text: str, error: json.JSONDecodeError) -> bool:
    r"""Return whether a text is no JSON because of a single backslash.

    Before the quote at the end of a text, as in "D:\train\", it lets that go on in the next line.
    """
    line = text[: error.pos].rpartition("\n")[2] + text[error.pos :].partition("\n")[0]
    return "escape" in error.msg or _ENDS_IN_BACKSLASH.search(line) is not None


def lines_of_keys(text: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Yield every key and list entry of a valid JSON text, as its path, with its line."""
    path: list[str | int] = []
    line, is_value = 1, True
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token == "\n":
            line += 1
        elif token in "]}":
            path.pop()
        elif token == ",":
            last = path[-1]
            is_value = isinstance(last, int)
            path[-1] = last + 1 if isinstance(last, int) else last
        elif token == ":":
            is_value = True
        elif not is_value:
            path[-1] = json.loads(token)
            yield tuple(path), line
        else:
            if path and isinstance(path[-1], int):
                yield tuple(path), line
            if token in "{[":
                path.append("" if token == "{" else 0)
                is_value = token == "["


def json_text(document: object) -> str:
    """Return a document as JSON for people and programs, without tokens.

    What JSON does not know becomes text.
    """
    text = json.dumps(document, indent=2, ensure_ascii=False, default=str)
    if without_tokens(text) == text:
        return text
    document = without_tokens_inside(json.loads(text))
    return json.dumps(document, indent=2, ensure_ascii=False)


def shortened(path: Path, most: int = 200) -> str:
    """Return a path as text, with an ellipsis in the middle beyond `most` characters."""
    text = without_tokens(str(path))
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-most // 2 :]}"


def _value_error(text: str, error: ValueError) -> str:
    """Return where a JSON text has a key twice or too long a number; the rest may be no JSON."""
    first: dict[tuple[str | int, ...], int] = {}
    for path, line in lines_of_keys(text) if isinstance(error, DuplicateKey) else ():
        if path in first:
            return f'line {line}: "{path[-1]}" occurs twice, first in line {first[path]}'
        first[path] = line
    number = re.search(rf"\d{{{_MAX_DIGITS + 1},}}", text)
    line = text.count("\n", 0, number.start()) + 1 if number else 0
    return f"line {line}: a number of more than {_MAX_DIGITS} digits"


def _too_deep(source: str) -> UserError:
    return UserError(
        f"{source}: the JSON is nested more than {MAX_DEPTH} levels deep",
        "Expected a config",
        "Choose another file.",
    )
