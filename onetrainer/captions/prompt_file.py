"""Prompts from the command line and from files."""

import re
from collections.abc import Iterable
from pathlib import Path

from onetrainer.errors import UserError
from onetrainer.files.lines import split_lines

MAX_TEXT = 4000  # characters
MAX_BYTES = 1 << 26
# AUTOMATIC1111's syntax for LoRAs in a prompt.
_CALL = re.compile(r"<(?:lora|lyco):(?P<name>[^:<>]+)(?::(?P<strength>[^:<>]*))?[^<>]*>")


def read_prompts(path: Path, *, place: str) -> list[str]:
    """Return the lines of a prompt file without empty lines and comments.

    place is the option or setting that names the file. Raises UserError if it cannot be read.
    """
    return [line for _, line in numbered_lines(read_text(path, place=place))]


def numbered_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines of a text, counted from 1, without empty lines and comments."""
    lines = [(number, line.strip()) for number, line in enumerate(split_lines(text), start=1)]
    return [(number, line) for number, line in lines if line and not line.startswith("#")]


def read_text(path: Path, *, place: str) -> str:
    """Return the text of a prompt file; see `read_prompts`."""
    what, text = "", ""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)  # a device such as /dev/zero has no end
        if len(content) > MAX_BYTES:
            what = f"this file is larger than {MAX_BYTES >> 20} MiB"
        else:
            text = content.decode("utf-8-sig")
    except FileNotFoundError:
        what = "file not found"
    except IsADirectoryError:
        what = "this is a folder"
    except OSError as error:
        what = f"this cannot be read ({error.strerror or error})"
    except ValueError:
        what = "this is not a text file in UTF-8"
    if "\0" in text:
        what = "this is not a text file"
    if what:
        raise UserError(
            f"{path}: {what}",
            "Expected a UTF-8 text file with one prompt a line",
            f"Choose another file for {place}",
        )
    return text


def require_prompts(place: str, texts: Iterable[str]) -> None:
    """Raise UserError for texts that are too long or contain LoRA tags."""
    for text in texts:
        if len(text) > MAX_TEXT:
            raise UserError(
                f"{place}: the text has {len(text):,} characters",
                f"Expected at most {MAX_TEXT:,}",
                "Shorten it",
            )
        if call := _CALL.search(text):
            strength = f":{call['strength']}" if call["strength"] else ""
            raise UserError(
                f"{place}: {call[0]} would be read as plain text",
                "LoRAs are given by their files, apart from the prompt",
                f"Remove it from the prompt and use --lora {call['name']}.safetensors{strength}",
            )
