"""Parse the lines of a caption list in each of its formats."""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from onetrainer.captions.caption_file import decode_text
from onetrainer.errors import UserError
from onetrainer.files.inside import open_ordinary
from onetrainer.files.lines import LINE_END, split_lines

MAX_BYTES = 1 << 28
"""Largest caption list: a quarter of a gigabyte is a million long captions."""

_BEGINNING = 1 << 20

FILE_KEYS = ("file", "file_name", "filename", "image", "path")
CAPTION_KEYS = ("caption", "captions", "text", "prompt")
"""Accepted names of columns and keys, in order of preference; they cover the usual list formats."""

_NUMBERED = re.compile(r"caption_?(\d+)")
_BROKEN = re.compile("[\x00\ud800-\udfff]")  # NUL, half an emoji
_EXAMPLES = {
    ".csv": "file,caption in the first line and cat.png,a cat below",
    ".jsonl": '{"file": "cat.png", "caption": "a cat"}',
}


@dataclass(frozen=True, slots=True)
class CaptionEntry:
    """An entry of a caption list, with at least one caption.

    line: From 1. file: The image as the list names it, "" in a .txt file. focus: Center of the crop
    as fractions of width and height; None if there is none.
    """

    line: int
    file: str
    captions: tuple[str, ...]
    focus: tuple[float, float] | None = None


class _LineError(Exception):
    """A line that is invalid; the message says why."""


def read_list(path: Path) -> list[CaptionEntry]:
    """Return the entries of a list. Raises UserError with the line."""
    text = _text(path)
    match path.suffix.lower():
        case ".csv":
            rows = _csv_rows(path, text)
        case ".jsonl":
            rows = _json_rows(path, text)
        case ".txt":
            lines = enumerate(LINE_END.split(text), 1)  # an empty one is an empty caption
            return [CaptionEntry(line, "", (_clean(caption),)) for line, caption in lines]
        case _:
            raise UserError(
                f"{path} is not a caption list",
                "A .csv, .jsonl or .txt file is needed",
                "Choose another file, or give it the right extension",
            )
    entries = []
    for line, row in rows:
        try:
            entries.append(_entry(line, row))
        except _LineError as error:
            raise _line_error(path, line, str(error)) from error
    if not entries:
        raise UserError(
            f"{path} names no images",
            f"Expected {_EXAMPLES[path.suffix.lower()]}",
            "Write a line for each image, or choose another file",
        )
    return entries


def read_beginning(path: Path) -> bytes:
    """Return the first megabyte of a list that can be read, in whole lines."""
    with path.open("rb") as file:
        content = file.read(_BEGINNING)
    return content if len(content) < _BEGINNING else content.rpartition(b"\n")[0]


def _text(path: Path) -> str:
    needed = "A caption list is needed"
    try:
        with open_ordinary(path) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        what = ": file not found" if is_missing else f" cannot be read ({error.strerror})"
        raise UserError(f"{path}{what}", needed, "Choose another") from error
    if len(data) > MAX_BYTES:
        what = f"{path} is larger than {MAX_BYTES >> 20} MB"
        raise UserError(what, needed, "Split it up by folder")
    decoded = decode_text(data)
    if decoded is None or "\0" in decoded[0]:
        raise UserError(f"{path} is not text", needed, "Save it as UTF-8, or choose another")
    return decoded[0]


def _json_rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    for number, line in enumerate(split_lines(text), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else "too large"
            raise _line_error(path, number, f"invalid JSON ({why})") from error
        if not isinstance(row, dict):
            raise _line_error(path, number, "not a JSON object")
        yield number, {str(key).strip().lower(): value for key, value in row.items()}


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield rows by column names from the first line; columns are separated by , or ; or tabs."""
    first = next((line for line in split_lines(text) if line.strip()), "")
    stripped = text.lstrip("\r\n")
    reader = csv.reader(
        io.StringIO(stripped, newline=""),
        delimiter=max(",;\t", key=first.count),
        skipinitialspace=True,
        strict=True,
    )
    blank = len(LINE_END.findall(text[: len(text) - len(stripped)]))
    header: list[str] = []
    line = blank + 1
    try:
        for row in reader:
            start, line = line, blank + reader.line_num + 1
            if not any(cell.strip() for cell in row):
                continue
            if not header:
                header = [cell.strip().lower() for cell in row]
                _require_columns(path, start, header)
                continue
            if len(row) > len(header):
                what = f"{len(row)} columns, but the first line names {len(header)}"
                raise _line_error(path, start, f'{what}; a caption with commas goes in "quotes"')
            yield start, dict(zip(header, row, strict=False))
    except csv.Error as error:
        raise _line_error(path, line, f"invalid CSV ({error})") from error


def _require_columns(path: Path, line: int, header: Sequence[str]) -> None:
    named = ", ".join(f'"{cell}"' for cell in header)[:200]
    if len(set(filter(None, header))) != len([cell for cell in header if cell]):
        raise _line_error(path, line, f"two columns have the same name ({named})")
    if not any(key in header for key in FILE_KEYS):
        raise _line_error(path, line, f'no "file" column; found: {named}')
    if not _caption_keys(header):
        raise _line_error(path, line, f'no "caption" column; found: {named}')


def _entry(line: int, row: Mapping[str, object]) -> CaptionEntry:
    file = next((row[key] for key in FILE_KEYS if key in row), None)
    if not isinstance(file, str) or not file.strip().strip("/\\.") or _BROKEN.search(file):
        raise _LineError('"file" names no image')
    keys = _caption_keys(row)
    if not keys:
        raise _LineError('there is no "caption"')
    captions = tuple(filter(None, (text for key in keys for text in _captions(key, row[key]))))
    return CaptionEntry(line, file.strip(), captions or ("",), _focus(row))


def _caption_keys(names: Iterable[str]) -> list[str]:
    """Return the names of caption columns: one, or numbered ones in order."""
    names = list(names)
    plain = [key for key in CAPTION_KEYS if key in names][:1]
    numbered = [(int(found[1]), name) for name in names if (found := _NUMBERED.fullmatch(name))]
    return plain + [name for _, name in sorted(numbered)]


def _captions(key: str, value: object) -> list[str]:
    if value is None:
        return []
    found = []
    for text in value if isinstance(value, list) else [value]:
        if not isinstance(text, str):
            raise _LineError(f'"{key}" is neither text nor a list of texts')
        if _BROKEN.search(text):
            raise _LineError(f'"{key}" contains an invalid character')
        found.append(_clean(text))
    return found


def _focus(row: Mapping[str, object]) -> tuple[float, float] | None:
    focus = row.get("focus")
    if focus in (None, ""):
        x, y = row.get("focus_x"), row.get("focus_y")
        if x in (None, "") and y in (None, ""):
            return None
    elif isinstance(focus, list) and len(focus) == 2:
        x, y = focus
    else:
        raise _LineError('"focus" is not a list of two numbers, such as [0.5, 0.4]')
    return _fraction("focus_x", x), _fraction("focus_y", y)


def _fraction(name: str, value: object) -> float:
    number = math.nan
    with suppress(ValueError, TypeError):
        # Where ";" separates columns, "," is the decimal mark.
        text = value.replace(",", ".") if isinstance(value, str) else value
        number = math.nan if isinstance(value, bool) else float(text)  # type: ignore[arg-type]  # suppressed
    if not 0 <= number <= 1:
        text = "missing" if value in (None, "") else json.dumps(value, ensure_ascii=False)[:60]
        raise _LineError(f'"{name}" is {text}, not a number from 0 to 1')
    return number


def _clean(text: str) -> str:
    return " ".join(text.split())


def _line_error(path: Path, line: int, why: str) -> UserError:
    example = _EXAMPLES[path.suffix.lower()]
    return UserError(f"{path}, line {line}: {why}", f"Expected {example}", "Correct this line")
