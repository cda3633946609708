"""Prompts from the command line and from files."""

import re
from collections.abc import Iterable
from pathlib import Path

from onetrainer.errors import UserError

MAX_TEXT = 4000  # characters
# AUTOMATIC1111's syntax for LoRAs in a prompt.
_CALL = re.compile(r"<(?:lora|lyco):(?P<name>[^:<>]+)(?::(?P<strength>[^:<>]*))?[^<>]*>")


def read_prompts(path: Path, *, place: str = "--prompts") -> list[str]:
    """Return the lines of a prompt file without empty lines and comments.

    place is the option or setting that names the file. Raises UserError if it cannot be read.
    """
    what, text = "", ""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        what = "file not found"
    except IsADirectoryError:
        what = "this is a folder"
    except OSError as error:
        what = f"this cannot be read ({error.strerror or error})"
    except ValueError:
        what = "this is not a text file in UTF-8"
    stripped = [line.strip() for line in text.splitlines()]
    found = [line for line in stripped if line and not line.startswith("#")]
    if "\0" in "".join(found):
        what = "this is not a text file"
    if what:
        raise UserError(
            f"{path}: {what}",
            "Expected a UTF-8 text file with one prompt a line",
            f"Choose another file for {place}",
        )
    return found


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
